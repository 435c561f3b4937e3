"""CPU tensors of torch as out-of-band buffers, like arrays. Imported only when torch is loaded already."""

from __future__ import annotations

import copyreg
import ctypes
import pickle
import sys
from collections import ChainMap
from typing import Any

from gpu_dispatch.transport.arena import THRESHOLD


def _reduce_tensor(tensor: Any) -> tuple[Any, ...] | str:
    torch = sys.modules["torch"]
    plain = type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.layout == torch.strided
    if not plain or tensor.is_quantized or tensor.numel() * tensor.element_size() < THRESHOLD:
        return tensor.__reduce_ex__(5)  # type: ignore[no-any-return]
    data = tensor.detach().contiguous()
    size = data.numel() * data.element_size()
    memory = (ctypes.c_char * size).from_address(data.data_ptr())
    memory.tensor = data  # the address is good only while the tensor lives
    name = str(data.dtype).removeprefix("torch.")
    return _rebuild_tensor, (pickle.PickleBuffer(memory), name, tuple(data.shape), tensor.requires_grad)


def _rebuild_tensor(buffer: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool) -> Any:
    import torch

    if isinstance(buffer, bytes):  # it stayed in the pickle, and torch wants memory that may be written
        buffer = bytearray(buffer)
    tensor = torch.frombuffer(buffer, dtype=getattr(torch, dtype)).reshape(shape)
    return tensor.requires_grad_() if requires_grad else tensor


def _reducers() -> Any:
    torch = sys.modules["torch"]
    # Over copyreg's own table, so that what others registered there stays in force.
    return ChainMap({getattr(torch, "Tensor", object): _reduce_tensor}, copyreg.dispatch_table)


TENSOR_REDUCERS = _reducers()
