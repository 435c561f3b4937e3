"""What frameworks say when memory runs out, or when a GPU context breaks. Texts as they are printed in the wild."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from gpu_dispatch.runtime import oom


def exception(name: str, text: str, *bases: type[BaseException], module: str = "framework") -> BaseException:
    """An exception of a framework that is not installed here."""
    return type(name, bases or (RuntimeError,), {"__module__": module})(text)


OUT_OF_MEMORY = {
    "torch cuda": exception(
        "OutOfMemoryError",
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 39.39 GiB of which 1.10 GiB is "
        "free. Including non-PyTorch memory, this process has 38.28 GiB memory in use.",
        module="torch",
    ),
    "torch before 1.13": RuntimeError(
        "CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 7.93 GiB total capacity)"
    ),
    "torch asynchronous": RuntimeError(
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"
    ),
    "torch hip": exception("OutOfMemoryError", "HIP out of memory. Tried to allocate 12.00 MiB.", module="torch"),
    "torch xpu": exception("OutOfMemoryError", "XPU out of memory. Tried to allocate 1.00 GiB.", module="torch"),
    "torch mps": RuntimeError("MPS backend out of memory (MPS allocated: 17.9 GB, other allocations: 384.00 KB)"),
    "torch cpu": RuntimeError(
        "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
        "allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)"
    ),
    "torch cpu, windows": RuntimeError("[enforce fail] data. DefaultCPUAllocator: not enough memory: you tried to"),
    "cublas": RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    "cudnn 8": RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    "cudnn 9": RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    "jax": exception(
        "XlaRuntimeError",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
        module="jaxlib.xla_extension",
    ),
    "jax, newer": exception(
        "JaxRuntimeError", "RESOURCE_EXHAUSTED: Failed to allocate request for 2.00GiB", module="jax"
    ),
    "tensorflow": exception(
        "ResourceExhaustedError",
        "OOM when allocating tensor with shape[64,512,512,64] and type float on /job:localhost/replica:0/task:0/device",
        Exception,
        module="tensorflow.python.framework.errors_impl",
    ),
    "tensorflow, inside a graph": exception(
        "InternalError", "Graph execution error: OOM when allocating tensor", Exception
    ),
    "cupy": exception(
        "OutOfMemoryError",
        "Out of memory allocating 8,000,000,000 bytes (allocated so far: 0 bytes).",
        MemoryError,
        module="cupy.cuda.memory",
    ),
    "cupy, runtime": exception("CUDARuntimeError", "cudaErrorMemoryAllocation: out of memory", module="cupy_backends"),
    "onnxruntime": exception(
        "RuntimeException",
        "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running Conv node. "
        "bfc_arena.cc:376 Failed to allocate memory for requested buffer of size 1073741824",
        Exception,
        module="onnxruntime.capi.onnxruntime_pybind11_state",
    ),
    "onnxruntime cuda": exception("Fail", "CUDA failure 2: out of memory ; GPU=0 ; hostname=node", Exception),
    "ctranslate2": RuntimeError("CUDA failed with error out of memory"),
    "tensorrt": RuntimeError(
        "Requested amount of GPU memory (1073741824 bytes) could not be allocated. [GPU memory could not be allocated]"
    ),
    "driver": RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
    "driver, name only": RuntimeError("cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY"),
    "level zero": RuntimeError("level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"),
    "numpy": exception("_ArrayMemoryError", "Unable to allocate 74.5 GiB for an array", MemoryError, module="numpy"),
    "python": MemoryError(),
    "the system": OSError(12, "Cannot allocate memory"),
}

POISONED = {
    "torch": RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be"),
    "torch accelerator": exception("AcceleratorError", "CUDA error: device-side assert triggered", module="torch"),
    "launch failure": RuntimeError("CUDA error: unspecified launch failure"),
    "watchdog": RuntimeError("CUDA error: the launch timed out and was terminated"),
    "ecc": RuntimeError("CUDA error: uncorrectable ECC error encountered"),
    "nvlink": RuntimeError("CUDA error: uncorrectable NVLink error detected during the execution"),
    "misaligned": RuntimeError("CUDA error: misaligned address"),
    "illegal instruction": RuntimeError("CUDA error: an illegal instruction was encountered"),
    "hip": RuntimeError("HIP error: an illegal memory access was encountered"),
    "jax": exception("XlaRuntimeError", "INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS: failed to synchronize", module="jaxlib"),
    "tensorflow": exception("InternalError", "CUDA_ERROR_LAUNCH_FAILED: failed to enqueue async memcpy", Exception),
    "cupy": exception("CUDARuntimeError", "cudaErrorIllegalAddress: an illegal memory access was encountered"),
    "onnxruntime": exception("Fail", "CUDA failure 700: an illegal memory access was encountered ; GPU=0", Exception),
    "ctranslate2": RuntimeError("CUDA failed with error unspecified launch failure"),
    "nvml": exception("NVMLError_GpuIsLost", "GPU is lost", Exception, module="pynvml"),
    "kernel": RuntimeError("GPU has fallen off the bus"),
    "level zero": RuntimeError("level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)"),
}

INNOCENT = {
    "about data": ValueError("the text 'CUDA out of memory' is not a label; device-side assert triggered"),
    "a key": KeyError("out of memory"),
    "an assertion of a test": AssertionError("expected 'illegal memory access', got nothing"),
    "wrong device": RuntimeError("CUDA error: invalid device ordinal"),
    "no kernel": RuntimeError("CUDA error: no kernel image is available for execution on the device"),
    "shapes": RuntimeError("mat1 and mat2 shapes cannot be multiplied (64x512 and 256x10)"),
    "no gpu": RuntimeError("No CUDA GPUs are available"),
    "disk": OSError(28, "No space left on device"),
    "time": TimeoutError("task_timeout of 5 s exceeded"),
    "a quota, by class": exception(
        "ResourceExhausted", "429 Quota exceeded", Exception, module="google.api_core.exceptions"
    ),
    "a quota, by status": exception(
        "_InactiveRpcError", "status = StatusCode.RESOURCE_EXHAUSTED details = Quota", Exception, module="grpc._channel"
    ),
    "nothing": RuntimeError(),
}


@pytest.mark.parametrize("error", OUT_OF_MEMORY.values(), ids=OUT_OF_MEMORY)
def test_out_of_memory_is_recognised(error: BaseException) -> None:
    assert oom.is_oom(error)
    assert not oom.is_poisoned(error)


@pytest.mark.parametrize("error", POISONED.values(), ids=POISONED)
def test_a_poisoned_context_is_recognised(error: BaseException) -> None:
    assert oom.is_poisoned(error)
    assert not oom.is_oom(error)


@pytest.mark.parametrize("error", INNOCENT.values(), ids=INNOCENT)
def test_other_errors_are_neither(error: BaseException) -> None:
    assert not oom.is_oom(error)
    assert not oom.is_poisoned(error)


def test_an_exception_without_words_is_neither() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert not oom.is_oom(Mute())
    assert not oom.is_poisoned(Mute())


def test_a_judge_of_ones_own_decides() -> None:
    judge = oom.judge(lambda error: "full" in str(error))
    assert judge(ValueError("the device is full"))
    assert not judge(MemoryError())


def test_a_judge_that_fails_is_told_of_and_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    judge = oom.judge(lambda error: error.code == 2)  # type: ignore[attr-defined]
    assert judge(MemoryError())
    assert not judge(ValueError("other"))
    assert "is_oom itself raised AttributeError" in capsys.readouterr().err


def test_what_filled_the_memory_is_let_go_before_the_next_try() -> None:
    class Tensor:
        alive = 0

        def __init__(self) -> None:
            Tensor.alive += 1

        def __del__(self) -> None:
            Tensor.alive -= 1

    def fill() -> None:
        activations = Tensor()
        try:
            weights = Tensor()
            raise MemoryError("inner", id(weights))
        except MemoryError as error:
            raise RuntimeError("CUDA out of memory", id(activations)) from error

    kept: BaseException | None = None
    try:
        fill()
    except RuntimeError as error:
        kept = error
    assert Tensor.alive == 2
    assert kept is not None
    oom.forget_frames(kept)
    assert Tensor.alive == 0


def test_caches_are_emptied_only_in_frameworks_that_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loaded:
        emptied = 0

        def __getattr__(self, name: str) -> Any:
            return self

        def __call__(self) -> bool:
            Loaded.emptied += 1
            return True

    monkeypatch.setitem(sys.modules, "torch", Loaded())
    monkeypatch.setitem(sys.modules, "cupy", None)  # type: ignore[arg-type]
    oom.empty_caches()
    assert Loaded.emptied == 2  # is_initialized, empty_cache
