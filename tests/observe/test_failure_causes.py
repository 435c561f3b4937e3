"""Ten thousand equal errors are one line with a count, and the line names the cause."""

from __future__ import annotations

import pytest

from gpu_dispatch.observe.failure_causes import MOST_CAUSES, FailureCauses, cause_of

CUDA = """Traceback (most recent call last):
  File "worker.py", line 3, in process
    self.model(x)
    ^^^^^^^^^^^^^
RuntimeError: CUDA error: device-side assert triggered
CUDA kernel errors might be asynchronously reported at some other API call.
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""
DEATH = """WorkerDied: worker 3 on GPU 3 (A100, GPU-12ab…) (pid 4711) was killed by SIGSEGV (a crash in native code).
Its last output:
  Fatal Python error: Segmentation fault
"""
NAMES = """Traceback (most recent call last):
  File "w.py", line 1, in process
ValueError: bad item 17 in 'a.png'"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (CUDA, "RuntimeError: CUDA error: device-side assert triggered"),
        (DEATH, "WorkerDied: was killed by SIGSEGV (a crash in native code)."),
        (NAMES, "ValueError: bad item # in '…'"),
        ("ValueError: no traceback", "ValueError: no traceback"),
        ("timed out", "timed out"),
        ("", "unknown"),
        ("\n  \n", "unknown"),
    ],
)  # fmt: skip
def test_the_cause_is_the_line_that_names_it(text: str, cause: str) -> None:
    assert cause_of(text) == cause


def test_equal_causes_are_counted_together_and_the_most_frequent_comes_first() -> None:
    causes = FailureCauses()
    for task in range(5):
        causes.add(task, f"ValueError: item {task}")
    causes.add(9, "OSError: disk")
    assert [(c["cause"], c["count"], c["last_task"]) for c in causes.ranked()] == [
        ("ValueError: item #", 5, 4),
        ("OSError: disk", 1, 9),
    ]


def test_a_flood_of_different_causes_does_not_grow_without_bound() -> None:
    causes = FailureCauses()
    for number in range(10_000):
        causes.add(number, f"Error{'x' * (number % 500)}: oops")
    assert len(causes.ranked()) <= MOST_CAUSES + 1
    assert sum(c["count"] for c in causes.ranked()) == 10_000
