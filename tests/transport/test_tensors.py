"""CPU tensors of torch: equal, writable, of every dtype, and no larger than what they hold."""

from __future__ import annotations

import gc
import pickle
import sys
import warnings
from typing import Any

import pytest
import torch

from gpu_dispatch.transport.arena import ArenaReader, ArenaWriter
from gpu_dispatch.transport.codec import Large, Packer, packed_size, unpack

Arena = tuple[ArenaWriter, ArenaReader]

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex128, torch.complex64, torch.complex32,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64,
    torch.bool, torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


def cross(value: Any, arena: Arena) -> Any:
    return unpack(Packer(arena[0]).pack(value), arena[1])


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    return (
        (left.dtype, left.shape) == (right.dtype, right.shape)
        and left.contiguous().view(torch.uint8).equal(right.contiguous().view(torch.uint8))
        if left.dim()
        else left.dtype == right.dtype and left.item() == right.item()
    )


@pytest.mark.parametrize("count", [0, 1, 100, 50_000], ids=["empty", "one", "small", "large"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_dtype_cross_and_can_be_written_to(arena: Arena, dtype: torch.dtype, count: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces that complex32 is experimental
        value = torch.randint(0, 2, (count,)).to(torch.float32).to(dtype)
    result = cross(value, arena)
    assert same(result, value)
    if count:
        result.zero_()
        assert not result.view(torch.uint8).any()


SOURCE = torch.arange(60_000, dtype=torch.float32).reshape(200, 300)
SHAPES = {
    "a matrix": SOURCE,
    "transposed": SOURCE.T,
    "every second column": SOURCE[:, ::2],
    "a row": SOURCE[7],
    "no dimension": torch.tensor(2.5),
    "no dimension, bfloat16": torch.tensor(2.5, dtype=torch.bfloat16),
    "an empty axis": torch.zeros(10, 0, 3),
    "expanded": torch.ones(1).expand(100_000),
    "channels last": torch.rand(2, 3, 64, 64).to(memory_format=torch.channels_last),
    "lazily conjugated": torch.randn(20_000, dtype=torch.complex64).conj(),
    "lazily negated": torch.randn(20_000, dtype=torch.complex64).conj().imag,
}


@pytest.mark.parametrize("value", SHAPES.values(), ids=SHAPES)
def test_tensors_of_every_shape_cross(arena: Arena, value: torch.Tensor) -> None:
    result = cross(value, arena)
    assert result.dtype == value.dtype
    assert result.shape == value.shape
    assert torch.equal(result.resolve_conj().resolve_neg(), value.resolve_conj().resolve_neg())


def test_one_row_of_a_batch_does_not_bring_the_others_along(arena: Arena) -> None:
    """``process_batch`` returns the rows of one tensor: torch's own pickle of a row holds the whole storage."""
    row = torch.randn(64, 384)[3]
    assert len(pickle.dumps(row)) > 64 * 384 * 4
    packed = Packer(arena[0]).pack(row)
    assert packed_size(packed) < 384 * 4 + 300


def test_large_tensors_lie_in_the_arena_until_they_are_gone(arena: Arena) -> None:
    writer, reader = arena
    packed = Packer(writer).pack({"features": SOURCE})
    assert isinstance(packed, Large)
    features = unpack(packed, reader)["features"]
    part = features[3:5].T
    del features
    gc.collect()
    writer._collect()
    assert len(writer._taken) == 1
    assert part.equal(SOURCE[3:5].T)
    del part
    gc.collect()
    writer._collect()
    assert writer._taken == []


@pytest.mark.parametrize("shape", [(3,), (50_000,)])
def test_whether_a_gradient_is_wanted_crosses(arena: Arena, shape: tuple[int, ...]) -> None:
    leaf = torch.ones(shape, requires_grad=True)
    result = cross(leaf, arena)
    assert result.requires_grad
    assert result.is_leaf
    inner = cross(leaf * 2, arena)
    assert inner.requires_grad
    assert inner.equal(torch.full(shape, 2.0))


def test_parameters_modules_and_nested_tensors_cross(arena: Arena) -> None:
    layer = torch.nn.Linear(300, 300)
    copy = cross({"layer": layer, "list": [SOURCE, (SOURCE[:2],)]}, arena)
    assert isinstance(copy["layer"].weight, torch.nn.Parameter)
    assert copy["layer"].weight.equal(layer.weight)
    assert copy["list"][1][0].equal(SOURCE[:2])


UNUSUAL = {
    "sparse": lambda: torch.eye(300).to_sparse(),
    "with an attribute": lambda: _with_attribute(torch.ones(20_000)),
    "a subclass": lambda: torch.ones(20_000).as_subclass(Labelled),
    "quantized": lambda: torch.quantize_per_tensor(torch.rand(20_000), 0.1, 0, torch.quint8),
    "without numbers": lambda: torch.empty(20_000, device="meta"),
}


class Labelled(torch.Tensor):
    pass


def _with_attribute(tensor: torch.Tensor) -> torch.Tensor:
    tensor.label = "cat"  # type: ignore[attr-defined]
    return tensor


@pytest.mark.parametrize("make", UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_tensors_cross_as_torch_itself_would_send_them(arena: Arena, make: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces the end of quantized tensors
        value = make()
        result = cross(value, arena)
        assert (type(result), result.layout, result.dtype) == (type(value), value.layout, value.dtype)
        assert result.shape == value.shape
        assert result.device == value.device
    assert getattr(result, "label", None) == getattr(value, "label", None)


def test_a_full_arena_makes_tensors_travel_inside_their_message(make_arena: Any) -> None:
    arena = make_arena(1 << 20)
    kept = [cross(SOURCE, arena) for _ in range(10)]
    assert all(tensor.equal(SOURCE) for tensor in kept)
    kept[-1].zero_()


def test_torch_that_is_only_half_imported_is_not_touched(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    assert cross({"a": 1}, arena) == {"a": 1}


def test_tensors_without_numpy_cross(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(self: torch.Tensor, *_: Any) -> Any:
        raise RuntimeError("Numpy is not available")

    monkeypatch.setattr(torch.Tensor, "numpy", without)
    assert cross(SOURCE, arena).equal(SOURCE)
    assert cross(SOURCE[:1, :3], arena).equal(SOURCE[:1, :3])
    assert cross(torch.empty(0), arena).shape == (0,)
