"""Recognising what GPU frameworks raise, without importing any of them.

Out of memory: shrink the batch and try again. A poisoned context (illegal access, device-side assert, lost GPU):
nothing in this process will work any more, so the worker must be replaced.
"""

from __future__ import annotations

import gc
import sys

OOM_TYPES = frozenset(
    (
        "OutOfMemoryError",  # torch.cuda, torch (2.5+), cupy
        "ResourceExhaustedError",  # tensorflow
        "CUDAOutOfMemoryError",
    )
)
OOM_PHRASES = (
    "out of memory",  # torch, CTranslate2 ("CUDA failed with error out of memory"), cupy, CUDA itself
    "resource_exhausted",  # jax / XLA
    "resource exhausted",
    "failed to allocate memory",  # onnxruntime ("Failed to allocate memory for requested buffer of size")
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "hip error: out of memory",
    "unable to allocate",  # XLA, numpy
)
POISONED_PHRASES = (
    "illegal memory access",
    "device-side assert",
    "unspecified launch failure",
    "uncorrectable ecc error",
    "gpu is lost",
    "device is lost",
    "fallen off the bus",
    "misaligned address",
    "illegal instruction was encountered",
    "cuda error: launch failed",
)


def is_oom(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or OOM_TYPES.intersection(cls.__name__ for cls in type(error).__mro__):
        return True
    return _mentions(error, OOM_PHRASES)


def is_poisoned(error: BaseException) -> bool:
    return _mentions(error, POISONED_PHRASES)


def _mentions(error: BaseException, phrases: tuple[str, ...]) -> bool:
    if isinstance(error, ValueError | KeyError | TypeError):
        return False  # about data, whatever the text says
    try:
        text = str(error).lower()
    except Exception:
        return False
    return any(phrase in text for phrase in phrases)


def empty_caches() -> None:
    """Give cached memory back to the device, in the frameworks that are loaded."""
    gc.collect()  # tensors of the failed call may hang in reference cycles
    torch = sys.modules.get("torch")
    cupy = sys.modules.get("cupy")
    try:
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        if cupy is not None:
            cupy.get_default_memory_pool().free_all_blocks()
    except Exception:  # a context that is already broken: the retry will say so better than we can
        pass
