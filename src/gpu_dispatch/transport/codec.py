"""Objects to bytes and back, one pickle per task, so that a bad one hurts only itself.

Items (parent → worker) travel as one of two forms:
    ("atoms", pickle of the whole list)    when all are plain numbers, strings, …: these cannot fail one by one
    ("each", [pickle, pickle, …])          otherwise; each is opened in the worker, inside its own task

Results (worker → parent) are entries: (task_id, busy_s, value), or (task_id, busy_s, None, Failure).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from gpu_dispatch.protocol import Failure
from gpu_dispatch.transport.explain import explain_pickling_error

ATOMS = frozenset((int, float, bool, str, type(None)))
"""Types that always pickle and always unpickle. Not bytes: large ones go through the arena."""
MOST_ATOM_TEXT = 4096

Dumps = Callable[[Any], bytes]


class WillNotPickle(Exception):
    """Carries a text for the user: what, where inside it, and what to do."""


def plain_dumps(value: Any) -> bytes:
    """Pickle; by value (cloudpickle) what pickle cannot name, if cloudpickle is there."""
    try:
        return pickle.dumps(value, protocol=5)
    except Exception as error:
        by_value = cloudpickle_dumps()
        if by_value is not None:
            try:
                return by_value(value)
            except Exception:
                pass  # the first error is the one that names the user's object
        raise WillNotPickle(explain_pickling_error(value, error)) from error


def cloudpickle_dumps() -> Dumps | None:
    try:
        import cloudpickle
    except ImportError:
        return None
    return lambda value: cloudpickle.dumps(value, protocol=5)  # type: ignore[no-any-return]


def are_atoms(items: Sequence[Any]) -> bool:
    return ATOMS.issuperset(map(type, items))


def pack_atoms(items: Sequence[Any]) -> tuple[str, Any]:
    return ("atoms", pickle.dumps(list(items), protocol=5))


def success_entry(task_id: int, busy_s: float, value: Any) -> bytes:
    """Hot: once per task. Raises whatever pickling raises."""
    return pickle.dumps((task_id, busy_s, value), protocol=5)


def failure_entry(task_id: int, busy_s: float, failure: Failure) -> bytes:
    return pickle.dumps((task_id, busy_s, None, failure), protocol=5)


def entry_task_id(entry: memoryview) -> int:
    """The task an entry is about, found without executing it: for entries that will not load."""
    import pickletools

    for opcode, argument, _ in pickletools.genops(bytes(entry)):
        if isinstance(argument, int) and opcode.name.startswith(("BININT", "LONG")):
            return argument
    raise ValueError("an entry without a task id")


def item_dumps(*, main_is_imported: bool) -> Dumps:
    """How items are pickled on their way to a worker.

    Unless the workers import the user's script, the names of ``__main__`` do not exist there: what refers to them
    must travel by value.
    """
    if main_is_imported:
        return plain_dumps

    def dumps(value: Any) -> bytes:
        data = plain_dumps(value)
        if b"__main__" not in data:
            return data
        by_value = cloudpickle_dumps()
        if by_value is None:
            raise WillNotPickle(
                "It refers to a name of the main script, which the workers do not import: "
                "move that class or function into a module, or `pip install cloudpickle`."
            )
        return by_value(value)

    return dumps
