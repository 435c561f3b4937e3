from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_dispatch.errors import UsageError
from gpu_dispatch.multigpu import ResourceAllocator
from gpu_dispatch.multigpu.strategies import round_robin, size_balanced


@pytest.fixture
def tree(tmp_path):
    for name, size in {
        "small.wav": 1,
        "big.WAV": 30,
        "deep/er/middle.wav": 20,
        "deep/käse.mp3": 5,
        "notes.txt": 9,
        ".hidden.wav": 9,
        ".cache/x.wav": 9,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    (tmp_path / "dangling.wav").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.wav")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.wav", ["big.WAV", "deep/er/middle.wav", "small.wav"]),
        ("*.mp3, *.txt", ["notes.txt", "deep/käse.mp3"]),
        ("**/*.wav", ["big.WAV", "deep/er/middle.wav", "small.wav"]),
        ("deep/*", ["deep/er/middle.wav", "deep/käse.mp3"]),
        (None, ["big.WAV", "deep/er/middle.wav", "deep/käse.mp3", "small.wav"]),
        ("*.flac", []),
    ],
)
def test_files_are_found_below_the_folder_the_largest_first(tree, pattern, names):
    found = ResourceAllocator().discover_files(tree, pattern)

    assert [path.relative_to(tree).as_posix() for path in found] == names


@pytest.mark.parametrize("pattern", ["", " , "])
def test_an_empty_pattern_is_a_mistake(tree, pattern):
    with pytest.raises(UsageError, match="empty"):
        ResourceAllocator().discover_files(tree, pattern)


def test_a_folder_that_is_none_is_refused(tree):
    allocator = ResourceAllocator()

    assert allocator.validate_input_dir(tree) == (True, None)
    assert allocator.validate_input_dir(tree / "nowhere") == (False, f"{tree / 'nowhere'} does not exist")
    assert allocator.validate_input_dir(tree / "notes.txt") == (False, f"{tree / 'notes.txt'} is not a folder")
    with pytest.raises(UsageError, match="does not exist"):
        allocator.discover_files(tree / "nowhere", "*")


def test_the_queue_holds_the_files_and_says_when_it_is_over():
    tasks = ResourceAllocator().create_task_queue([Path("a"), Path("b")], num_workers=2)

    assert [tasks.get_nowait() for _ in range(tasks.qsize())] == [Path("a"), Path("b"), None, None]
    assert ResourceAllocator().create_result_queue().empty()


def test_the_workload_is_estimated(tree):
    allocator = ResourceAllocator()

    estimate = allocator.estimate_workload(allocator.discover_files(tree, "*.wav"))

    assert estimate == {
        "file_count": 3,
        "total_size": 51,
        "average_size": 17.0,
        "largest_size": 30,
        "smallest_size": 1,
    }
    assert allocator.estimate_workload([])["total_size"] == 0


def test_files_that_do_not_exist_can_be_shared_out_too():
    shares = ResourceAllocator().distribute_workload([Path("a.wav"), Path("b.wav")], num_gpus=2)

    assert sorted(map(len, shares)) == [1, 1]


@given(st.lists(st.integers(0, 1000), max_size=40), st.integers(1, 6), st.sampled_from([round_robin, size_balanced]))
def test_every_strategy_deals_each_file_once(sizes, shares, strategy):
    files = [(Path(f"{n}.wav"), size) for n, size in enumerate(sizes)]

    dealt = strategy(files, shares)

    assert len(dealt) == shares
    assert sorted(path for share in dealt for path in share) == sorted(path for path, _ in files)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(1, 6))
def test_balanced_shares_differ_by_no_more_than_the_largest_file(sizes, shares):
    files = {Path(f"{n}.wav"): size for n, size in enumerate(sizes)}

    loads = [sum(files[path] for path in share) for share in size_balanced(list(files.items()), shares)]

    assert max(loads) - min(loads) <= max(sizes)


def test_a_strategy_of_ones_own_is_used_and_checked(tree):
    files = [tree / "small.wav", tree / "big.WAV"]

    mine = ResourceAllocator(lambda sized, shares: [[path for path, _ in sized], *[[]] * (shares - 1)])
    assert mine.distribute_workload(files, 2) == [files, []]
    careless = ResourceAllocator(lambda sized, shares: [[] for _ in range(shares)])
    with pytest.raises(UsageError, match="did not deal 2 files"):
        careless.distribute_workload(files, 2)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5])
def test_there_must_be_somebody_to_share_with(wrong):
    with pytest.raises(UsageError, match="num_gpus"):
        ResourceAllocator().distribute_workload([], wrong)
    with pytest.raises(UsageError, match="num_workers"):
        ResourceAllocator().create_task_queue([], wrong)


def test_an_unknown_strategy_is_named():
    with pytest.raises(UsageError, match="'best'"):
        ResourceAllocator("best")
