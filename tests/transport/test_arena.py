"""Pieces of shared memory: reused, freed by garbage collection, and never handed out twice."""

from __future__ import annotations

import errno
import gc
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_dispatch.transport import budget
from gpu_dispatch.transport.arena import (
    CONTROL_BYTES,
    MOST_PIECES,
    ArenaReader,
    ArenaWriter,
    capacity_for,
    create_arena_file,
)

Arena = tuple[ArenaWriter, ArenaReader]
MakeArena = Callable[..., Arena]


def filled(size: int, value: int) -> memoryview:
    return memoryview(bytes([value]) * size)


def test_what_is_placed_is_what_is_seen(arena: Arena) -> None:
    writer, reader = arena
    ref = writer.place(filled(100_000, 7))
    assert ref is not None
    view = reader.view(ref)
    assert (len(view), view.readonly) == (100_000, False)
    assert view == filled(100_000, 7)


def test_a_piece_is_used_again_as_soon_as_the_last_view_of_it_is_gone(arena: Arena) -> None:
    writer, reader = arena
    first = writer.place(filled(100_000, 1))
    assert first is not None
    array = numpy.frombuffer(reader.view(first), dtype=numpy.uint8)
    part = array[10:20]
    del array
    second = writer.place(filled(100_000, 2))
    assert second is not None
    assert second.offset != first.offset, "a slice of the first is still in use"
    assert part[0] == 1
    del part
    third = writer.place(filled(99_000, 3))
    assert third is not None
    assert third.offset == first.offset


def test_memory_does_not_grow_with_the_number_of_buffers(arena: Arena) -> None:
    writer, reader = arena
    for number in range(2000):
        ref = writer.place(filled(1 << 20, number % 256))
        assert ref is not None
        assert reader.view(ref)[-1] == number % 256
    assert len({piece for piece, _ in writer._pieces}) <= 2


def test_a_full_arena_answers_none_and_recovers(make_arena: MakeArena) -> None:
    writer, reader = make_arena(4 << 20)
    kept = []
    while True:
        ref = writer.place(filled(1 << 20, len(kept)))
        if ref is None:
            break
        kept.append(reader.view(ref))
    assert 2 <= len(kept) <= 4
    assert all(view[0] == number for number, view in enumerate(kept))
    assert writer.place(filled(1 << 20, 9)) is None
    kept.pop()
    assert writer.place(filled(1 << 20, 9)) is not None


def test_a_buffer_larger_than_the_arena_is_refused(arena: Arena) -> None:
    writer, _ = arena
    assert writer.place(filled(17 << 20, 1)) is None
    assert writer.place(filled(1 << 20, 1)) is not None


def test_what_was_placed_and_not_sent_is_free_again(arena: Arena) -> None:
    writer, _ = arena
    refs = [writer.place(filled(1 << 20, 1)) for _ in range(4)]
    writer.release([ref for ref in refs if ref is not None])
    again = [writer.place(filled(1 << 20, 1)) for _ in range(4)]
    assert {ref.offset for ref in again if ref} == {ref.offset for ref in refs if ref}


def test_what_was_sent_and_not_wanted_is_free_again(arena: Arena) -> None:
    writer, reader = arena
    ref = writer.place(filled(1 << 20, 1))
    assert ref is not None
    reader.drop(ref)
    assert writer.place(filled(1 << 20, 2)) == ref


def test_pieces_cut_for_small_buffers_are_joined_for_large_ones(make_arena: MakeArena) -> None:
    """Items whose size changes in the course of a run: without this, the rest of the run would be slow."""
    writer, reader = make_arena(8 << 20)
    small = [writer.place(filled(100_000, 1)) for _ in range(1000)]
    assert None in small
    writer.release([ref for ref in small if ref is not None])
    large = writer.place(filled(6 << 20, 2))
    assert large is not None
    view = reader.view(large)
    assert view == filled(6 << 20, 2)
    del view
    assert sum(writer.place(filled(100_000, 3)) is not None for _ in range(100)) > 50


def test_more_buffers_than_there_are_numbers_are_refused_not_mixed_up(make_arena: MakeArena) -> None:
    writer, reader = make_arena(1 << 30)
    refs = [writer.place(filled(8, number % 256)) for number in range(MOST_PIECES + 10)]
    assert refs[MOST_PIECES:] == [None] * 10
    placed = [ref for ref in refs if ref is not None]
    assert len({ref.piece for ref in placed}) == MOST_PIECES
    assert all(reader.view(ref)[0] == number % 256 for number, ref in enumerate(placed))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.integers(0, 5), st.integers(100, 3_000_000)), max_size=120))
def test_whatever_is_kept_and_dropped_no_two_buffers_share_memory(steps: list[int]) -> None:
    """Small numbers drop one of those kept; large ones place a buffer of that size."""
    fd = create_arena_file(8 << 20)
    writer, reader = ArenaWriter(fd), ArenaReader(fd)
    os.close(fd)
    kept: list[tuple[memoryview, int]] = []
    for number, step in enumerate(steps):
        if step < 100:
            del kept[step : step + 2]
            continue
        ref = writer.place(filled(step, number % 251))
        if ref is not None:
            kept.append((reader.view(ref), number % 251))
        for view, value in kept:
            assert view[0] == view[-1] == value
    kept.clear()
    writer.close()
    reader.close()


def test_an_arena_in_which_everything_is_kept_refuses_quickly(make_arena: MakeArena) -> None:
    """Every further buffer then asks in vain: that must not cost more than sending it another way."""
    import time

    writer, reader = make_arena(256 << 20)
    kept = []
    while (ref := writer.place(filled(1 << 16, 1))) is not None:
        kept.append(reader.view(ref))
    assert len(kept) > 3000
    buffer = filled(1 << 16, 2)
    started = time.perf_counter()
    for _ in range(1000):
        assert writer.place(buffer) is None
    assert time.perf_counter() - started < 0.5  # measured: 5 µs each, where a look at each piece took 200 µs


def test_memory_that_runs_out_on_the_way_is_a_refusal(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = arena
    first = writer.place(filled(1 << 20, 1))
    assert first is not None

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_space)
    assert writer.place(filled(1 << 20, 2)) is None
    monkeypatch.undo()
    assert writer.place(filled(1 << 20, 2)) is None, "what was refused once is not asked for again"
    reader.drop(first)
    assert writer.place(filled(1 << 20, 3)) == first


def test_a_process_that_may_map_little_has_a_smaller_arena(tmp_path: Path) -> None:
    """``ulimit -v``, as on many clusters."""
    script = (
        "import os, resource\n"
        "from gpu_dispatch.transport.arena import ArenaReader, ArenaWriter, create_arena_file\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * os.sysconf('SC_PAGE_SIZE')\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20),) * 2)\n"
        "fd = create_arena_file(1 << 30)\n"
        "assert os.fstat(fd).st_size <= 256 << 20, os.fstat(fd).st_size\n"
        "writer = ArenaWriter(fd)\n"
        "assert writer.place(memoryview(bytes(1 << 20))) is not None\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)


def test_a_process_that_may_write_no_large_files_has_a_smaller_arena(tmp_path: Path) -> None:
    script = (
        "import os, resource\n"
        "from gpu_dispatch.transport.arena import ArenaWriter, create_arena_file\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10 << 20, 10 << 20))\n"
        "writer = ArenaWriter(create_arena_file(1 << 30))\n"
        "assert writer.place(memoryview(bytes(1 << 20))) is not None\n"
        "assert writer.place(memoryview(bytes(50 << 20))) is None\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)


def test_views_outlive_the_reader_and_then_the_mapping_goes() -> None:
    def mapped() -> int:
        gc.collect()
        return sum("gpu-dispatch-arena" in line for line in Path("/proc/self/maps").read_text().splitlines())

    before = mapped()
    fd = create_arena_file(8 << 20)
    writer, reader = ArenaWriter(fd), ArenaReader(fd)
    os.close(fd)
    ref = writer.place(filled(1 << 20, 5))
    assert ref is not None
    array = numpy.frombuffer(reader.view(ref), dtype=numpy.uint8)
    writer.close()
    reader.close()
    del reader
    assert array[0] == 5
    assert mapped() == before + 1
    del array
    assert mapped() == before


def test_arrays_kept_to_the_end_of_the_interpreter_end_in_silence(tmp_path: Path) -> None:
    script = (
        "from gpu_dispatch.transport.arena import ArenaReader, ArenaWriter, create_arena_file\n"
        "import numpy\n"
        "fd = create_arena_file(8 << 20)\n"
        "writer, reader = ArenaWriter(fd), ArenaReader(fd)\n"
        "kept = [numpy.frombuffer(reader.view(writer.place(memoryview(bytes(40_000))))) for _ in range(10)]\n"
        "class Holder: pass\n"
        "holder = Holder(); holder.me = holder; holder.kept = kept\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize("size", [1, 4096, 32768, 100_000, 600_000, 1 << 20, (1 << 20) + 1, 25_000_000])
def test_capacities_waste_little_and_are_few(size: int) -> None:
    capacity = capacity_for(size)
    assert size <= capacity <= max(4096, size * 1.26)
    assert capacity % 4096 == 0


def test_there_are_few_different_capacities() -> None:
    chance = random.Random(1)
    assert len({capacity_for(chance.randrange(1 << 15, 1 << 28)) for _ in range(20_000)}) < 80


def test_all_arenas_together_stay_within_a_quarter_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "memory_of_this_machine", lambda: 4 << 30)
    assert budget.arena_bytes(1) == 512 << 20
    assert budget.arena_bytes(8) * 16 == 1 << 30
    assert budget.arena_bytes(1000) == 16 << 20


def test_the_flags_have_room_for_every_piece() -> None:
    assert CONTROL_BYTES >= MOST_PIECES
    assert resource.getpagesize() <= CONTROL_BYTES
