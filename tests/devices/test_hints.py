"""Hints below an error that the confinement explains."""

from __future__ import annotations

import pytest

from gpu_dispatch.devices import hint_for_setup_error


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: invalid device ordinal",
        "torch.AcceleratorError: CUDA error: invalid device ordinal\nGPU device may be out of range",
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInvalidDevice: invalid device ordinal",
        "RuntimeError: HIP error: invalid device ordinal",
        "AssertionError: Invalid device id",
    ],
)
def test_the_wrong_number_of_a_gpu_is_explained(text):
    hint = hint_for_setup_error(text)
    assert hint is not None
    assert "self.device" in hint
    assert "cuda:0" in hint


def test_other_errors_get_no_hint():
    assert hint_for_setup_error("FileNotFoundError: model.bin") is None
