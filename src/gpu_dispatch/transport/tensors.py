"""Tensors of torch as plain buffers, like arrays. Imported only where torch is loaded already, or a tensor arrives.

Torch's own pickle of a tensor takes half a millisecond, and carries the whole storage: one row of a batch of results
would bring all the others along. Ours carries the numbers, whatever the dtype.

Tensors that live on a device cross as CPU tensors: the number of that device means another one in the other process.
"""

from __future__ import annotations

import copyreg
import ctypes
import pickle
from typing import Any

import torch

DEVICES = frozenset(("cpu", "cuda", "xpu", "mps", "hpu", "npu"))
"""Where the numbers of a tensor can be read. Not ``meta``, which has none."""


def _reduce_tensor(tensor: Any) -> tuple[Any, ...] | str:
    if not _is_plain(tensor):
        return tensor.__reduce_ex__(5)  # type: ignore[no-any-return]
    data = tensor.detach()
    if data.device.type != "cpu":
        data = data.cpu()
    data = data.resolve_conj().resolve_neg().contiguous()
    name = str(data.dtype).removeprefix("torch.")
    return _rebuild_tensor, (pickle.PickleBuffer(_memory(data)), name, tuple(data.shape), tensor.requires_grad)


def _is_plain(tensor: Any) -> bool:
    return (
        tensor.layout == torch.strided
        and tensor.device.type in DEVICES
        and not (tensor.is_quantized or tensor.is_nested or tensor.__dict__)
        and not any(getattr(tensor, "names", ()))
    )


def _memory(data: Any) -> Any:
    """The numbers of a contiguous tensor as bytes, without a copy; what is returned keeps the tensor alive."""
    try:
        return data.reshape(-1).view(torch.uint8).numpy()
    except RuntimeError:  # torch was built without numpy, or cannot see this dtype as bytes
        memory = (ctypes.c_char * data.nbytes).from_address(data.data_ptr())
        memory.tensor = data
        return memory


def _rebuild_tensor(buffer: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool) -> Any:
    kind = getattr(torch, dtype)
    # frombuffer refuses an empty one.
    flat = torch.frombuffer(buffer, dtype=kind) if len(buffer) else torch.empty(0, dtype=kind)
    tensor = flat.reshape(shape)
    return tensor.requires_grad_() if requires_grad else tensor


class TensorReducers(dict[type, Any]):
    """In place of copyreg's own table, which stays in force for everything else."""

    def __missing__(self, kind: type) -> Any:
        return copyreg.dispatch_table[kind]


TENSOR_REDUCERS = TensorReducers({torch.Tensor: _reduce_tensor})
