"""How much memory there is, as far as a container lets us know."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpu_dispatch.transport.budget import memory_of_this_machine
from gpu_dispatch.transport.memory import create_memory_file

ALL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ALL),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, ALL),
        (
            {
                "proc/self/cgroup": "0::/slurm/job_7/step_0\n",
                "sys/fs/cgroup/slurm/job_7/memory.max": "2000000\n",
                "sys/fs/cgroup/slurm/job_7/step_0/memory.max": "max\n",
            },
            2_000_000,
        ),
        (
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/docker/abc\n",
                "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "3000000\n",
            },
            3_000_000,
        ),
        (
            {"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"},
            ALL,
        ),
        ({"proc/self/cgroup": "nonsense\n\x00\xff", "sys/fs/cgroup/memory.max": "-"}, ALL),
    ],
    ids=["none", "a container", "no limit", "a job around us", "version 1", "version 1, no limit", "nonsense"],
)
def test_the_smallest_limit_around_us_counts(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    assert memory_of_this_machine(tree(tmp_path, files)) == expected


def test_shared_memory_has_no_name() -> None:
    fd = create_memory_file("test", 1 << 20)
    try:
        assert os.fstat(fd).st_nlink == 0
        assert os.fstat(fd).st_size == 1 << 20
        assert "memfd:" in os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
