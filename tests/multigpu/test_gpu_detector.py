from __future__ import annotations

import pytest

from gpu_dispatch.multigpu import GPUDetector


def test_a_machine_without_gpus_has_none():
    detector = GPUDetector()

    assert detector.get_available_gpus() == []
    assert detector.is_cuda_available() is False
    assert detector.parse_gpu_list("auto") == []


def test_gpus_are_found_with_their_memory(four_gpus):
    detector = GPUDetector()

    assert detector.get_available_gpus() == [0, 1, 2, 3]
    assert detector.is_cuda_available() is True
    info = detector.get_gpu_info(1)
    assert info["id"] == 1
    assert "A100" in info["name"]
    assert info["total_memory"] > 2**30
    assert info["free_memory"] == info["total_memory"] - info["used_memory"]


def test_a_mask_is_respected(four_gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")

    assert GPUDetector().get_available_gpus() == [0, 1]
    assert GPUDetector().get_gpu_info(0)["index"] == 2


@pytest.mark.parametrize(
    ("spec", "ids"), [("0,1,2", [0, 1, 2]), ("3", [3]), ("0,2-3", [0, 2, 3]), ("AUTO", [0, 1, 2, 3])]
)
def test_a_list_is_read(four_gpus, spec, ids):
    assert GPUDetector().parse_gpu_list(spec) == ids


@pytest.mark.parametrize(
    ("spec", "says"),
    [("0,x", "'x'"), ("", "empty"), ("0,0", "twice"), ("-1", "negative"), ("7", "no GPU 7"), ("cpu:2", "names no GPU")],
)
def test_a_wrong_list_is_a_value_error_with_its_reason(four_gpus, spec, says):
    with pytest.raises(ValueError, match=says):
        GPUDetector().parse_gpu_list(spec)


def test_gpus_are_validated(four_gpus):
    detector = GPUDetector()

    assert detector.validate_gpus([0, 3]) == (True, None)
    ok, error = detector.validate_gpus([0, 7])
    assert not ok
    assert error == "GPU 7 not found on this machine; available: 0, 1, 2, 3"


@pytest.mark.parametrize("ids", [[], [0, 0], [-1], ["x"]])
def test_what_is_no_list_of_gpus_is_not_valid(four_gpus, ids):
    ok, error = GPUDetector().validate_gpus(ids)

    assert not ok
    assert error


def test_without_gpus_no_gpu_is_valid():
    assert GPUDetector().validate_gpus([0, 1]) == (False, "GPUs 0, 1 not found on this machine; available: none")


def test_a_gpu_that_is_not_there_has_no_info(four_gpus):
    with pytest.raises(ValueError, match="no GPU 9; available: 0, 1, 2, 3"):
        GPUDetector().get_gpu_info(9)
