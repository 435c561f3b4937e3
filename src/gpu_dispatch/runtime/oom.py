"""Recognising what GPU frameworks raise, without importing any of them.

Out of memory: shrink the batch and try again. A poisoned context (illegal access, device-side assert, lost GPU):
nothing in this process will work any more, so the worker must be replaced.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

OOM_TYPES = frozenset(
    (
        "OutOfMemoryError",  # torch (torch.cuda before 2.5), cupy
        "ResourceExhaustedError",  # tensorflow
    )
)
OOM_PHRASES = (
    "out of memory",  # torch, CTranslate2, onnxruntime, cupy, JAX, CUDA itself
    "out_of_memory",  # CUDA_ERROR_OUT_OF_MEMORY, HIP_ERROR_OUT_OF_MEMORY
    "out_of_device_memory",  # Level Zero
    "resource_exhausted",  # XLA
    "resource exhausted",
    "oom when allocating",  # tensorflow
    "failed to allocate memory",  # onnxruntime
    "failed to allocate request for",  # XLA
    "unable to allocate",  # XLA, numpy
    "cannot allocate memory",  # ENOMEM
    "can't allocate memory",  # torch on the CPU
    "not enough memory",  # torch on the CPU, Windows
    "gpu memory could not be allocated",  # TensorRT
    "cudaerrormemoryallocation",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "device_allocation_failed",  # CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
)
POISONED_PHRASES = (
    "illegal memory access",
    "illegal_address",
    "illegaladdress",
    "device-side assert",
    "unspecified launch failure",
    "launch_failed",
    "launch timed out",  # a display's watchdog ended the kernel
    "uncorrectable ecc error",
    "uncorrectable nvlink error",
    "gpu is lost",
    "device is lost",
    "device_lost",
    "fallen off the bus",
    "misaligned address",
    "illegal instruction was encountered",
    "invalid program counter",
    "hardware stack error",
    "hardware exception",
    "exception occurred on the device",
)
ABOUT_DATA = (ValueError, LookupError, TypeError, AssertionError, ArithmeticError, AttributeError, NameError)
"""Errors about values and programs, whatever their text says."""
REMOTE_PACKAGES = frozenset(("grpc", "google", "botocore", "requests", "httpx", "aiohttp", "urllib3", "openai"))
"""A service that says "resource exhausted" means a quota, not our device."""


def is_oom(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if OOM_TYPES.intersection(cls.__name__ for cls in type(error).__mro__):
        return not _is_remote(error)
    return _mentions(error, OOM_PHRASES)


def is_poisoned(error: BaseException) -> bool:
    return _mentions(error, POISONED_PHRASES)


def judge(own: Callable[[BaseException], bool] | None) -> Callable[[BaseException], bool]:
    """The user's judge of what counts as out of memory, if there is one; when it fails itself, ours."""
    if own is None:
        return is_oom

    def ask(error: BaseException) -> bool:
        try:
            return bool(own(error))
        except Exception as failure:
            print(f"gpu_dispatch: is_oom itself raised {type(failure).__name__}: {failure}", file=sys.stderr)
            return is_oom(error)

    return ask


def _mentions(error: BaseException, phrases: tuple[str, ...]) -> bool:
    if isinstance(error, ABOUT_DATA) or _is_remote(error):
        return False
    try:
        text = str(error).lower()
    except Exception:
        return False
    return any(phrase in text for phrase in phrases)


def _is_remote(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in REMOTE_PACKAGES


def forget_frames(error: BaseException) -> None:
    """Let go of the tracebacks: their frames hold the tensors that filled the memory."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        link.__traceback__ = None
        waiting += (link.__cause__, link.__context__)


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
