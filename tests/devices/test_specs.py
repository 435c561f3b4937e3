"""What the user may write for gpu_ids, and what is said about the rest."""

from __future__ import annotations

import pytest

from gpu_dispatch.devices.spec import Auto, Cpu, Id, Uuid, parse
from gpu_dispatch.errors import DeviceSpecError, UsageError


class NumpyLike:
    """An integer that is not an int, as numpy's are."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


def listed(*numbers):
    return tuple(Id(number) for number in numbers)


def typed(*numbers):
    return tuple(Id(number, typed=True) for number in numbers)


@pytest.mark.parametrize(
    ("spec", "meaning"),
    [
        ([0, 1], listed(0, 1)),
        ((3,), listed(3)),
        (range(3), listed(0, 1, 2)),
        ([NumpyLike(2)], listed(2)),
        ((number for number in (5, 6)), listed(5, 6)),
        ("0", typed(0)),
        ("0,2-5", typed(0, 2, 3, 4, 5)),
        (" 1 , 3 - 4 ", typed(1, 3, 4)),
        (["0", "2-3"], typed(0, 2, 3)),
        ("GPU-ab12", (Uuid("GPU-ab12"),)),
        ("MIG-1f,GPU-2e,0", (Uuid("MIG-1f"), Uuid("GPU-2e"), Id(0, typed=True))),
        (["MIG-GPU-1f/7/0", 1], (Uuid("MIG-GPU-1f/7/0"), Id(1))),
        ("auto", Auto()),
        (" AUTO ", Auto()),
        ("cpu", Cpu(1)),
        ("cpu:4", Cpu(4)),
        ("CPU:2", Cpu(2)),
    ],
)
def test_what_can_be_written(spec, meaning):
    assert parse(spec) == meaning


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ([], "gpu_ids=[] is empty"),
        ("", "gpu_ids='' is empty"),
        (range(0), "is empty"),
        ("0,,1", "has an empty entry"),
        ([-1], "-1: a GPU id cannot be negative"),
        ("0,-1", "-1: a GPU id cannot be negative"),
        ([0, 1, 0], "names 0 twice; for several workers on a GPU use workers_per_gpu"),
        ("0,0-1", "names 0 twice"),
        ([0, "0"], "names 0 twice"),
        (["GPU-aa", "gpu-AA"], "names gpu-AA twice"),
        ([True], "True: a GPU id is a number or a UUID, not a bool"),
        (True, "got bool: True"),
        ([1.0], "1.0 (float)"),
        ([None], "None (NoneType)"),
        ([[0]], "[0] (list)"),
        (None, "got NoneType"),
        (4, "write [4] for that GPU, range(4) for so many"),
        ({0, 1}, "got set"),
        ({0: 1}, "got dict"),
        (b"01", "got bytes"),
        ("5-2", "'5-2' runs backwards, write 2-5"),
        ("0-99999999999", "names more than 1024 devices"),
        (range(2000), "names 2000 devices"),
        ("first", "'first' is neither a number, a range nor a UUID"),
        ("cuda:0", "'cuda:0' is neither"),
        ("0;1", "'0;1' is neither"),
        ("²", "'²' is neither"),
        ("GPU-", "'GPU-' is neither"),
        ("cpu:0", 'write "cpu:N"'),
        ("cpu:x", 'write "cpu:N"'),
        ("cpu:-1", 'write "cpu:N"'),
        ("cpu:99999", 'write "cpu:N"'),
        ("0,auto", "'auto' stands alone"),
        (["cpu:2"], "'cpu:2' stands alone"),
    ],
)
def test_a_wrong_spec_is_refused_with_the_value_in_the_message(spec, said):
    with pytest.raises(DeviceSpecError) as refusal:
        parse(spec)
    assert said in str(refusal.value)
    assert isinstance(refusal.value, UsageError)
