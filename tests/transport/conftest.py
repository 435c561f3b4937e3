from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from optional import WHY_NO_TORCH, OptionalTests

from gpu_dispatch.transport.arena import ArenaReader, ArenaWriter, create_arena_file

_torch = OptionalTests("torch", WHY_NO_TORCH, "test_tensors.py")
collect_ignore = _torch.ignored
pytest_terminal_summary = _torch.summary


@pytest.fixture
def make_arena() -> Iterator[Callable[..., tuple[ArenaWriter, ArenaReader]]]:
    """Both ends of an arena, in one process: what crosses is shared memory all the same."""
    with ExitStack() as stack:

        def make(limit: int = 16 << 20) -> tuple[ArenaWriter, ArenaReader]:
            fd = create_arena_file(limit)
            writer, reader = ArenaWriter(fd), ArenaReader(fd)
            os.close(fd)
            stack.callback(reader.close)
            stack.callback(writer.close)
            return writer, reader

        yield make


@pytest.fixture
def arena(make_arena: Callable[..., tuple[ArenaWriter, ArenaReader]]) -> tuple[ArenaWriter, ArenaReader]:
    return make_arena()
