"""Objects to bytes and back, one pickle per task, so that a bad one hurts only itself.

    a value ── Serializer ──► bytes; or Loose: a pickle, and beside it the large buffers that are not in it
            ── Packer ──────► bytes; or Large: what was large lies in the arena
            ── unpack ──────► the value

In a worker a result goes through both at once. An item in the parent may go through the first one when it is pulled,
which may run user code; through the second it goes when it is known who gets it.

Items (parent → worker) travel as one of two forms:
    ("together", pickle of the whole list)  when all are plain data: these cannot fail one by one
    ("each", [Packed or atom, …])           otherwise; each is opened in the worker, inside its own task
"""

from __future__ import annotations

import io
from itertools import chain
from sys import modules

from gpu_dispatch.light import dataclass
from gpu_dispatch.transport.arena import THRESHOLD, ArenaReader, ArenaWriter, Ref
from gpu_dispatch.transport.pickling import PickleBuffer, Pickler, dumps, loads

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Dumps = Callable[[Any], bytes]

ATOMS: frozenset[type] = frozenset((int, float, bool, str, type(None)))
"""Types that always pickle and always unpickle."""


RAW: frozenset[type] = frozenset((bytes, bytearray))
ALL_INSIDE = 1 << 62
"""Nothing is as large as this."""
NAMED = b"\x93\x94"
"""STACK_GLOBAL, MEMOIZE: what stands in a pickle of protocol 5 behind the name of each class or function. (By chance
also elsewhere, if rarely.) To look for it takes a tenth of the time of looking for a name."""


class WillNotPickle(Exception):
    """Carries a text for the user: what, where inside it, and what to do."""


@dataclass(frozen=True, slots=True)
class Loose:
    """A pickle that is large, or that large buffers belong to. They are the value's own memory, not copies."""

    pickle: bytes
    buffers: list[memoryview]


@dataclass(frozen=True, slots=True)
class Large:
    pickle: bytes | Ref
    buffers: tuple[Ref | bytearray, ...]
    """In the arena; where it was full, by themselves."""

    @property
    def size(self) -> int:
        size = self.pickle.size if isinstance(self.pickle, Ref) else len(self.pickle)
        for part in self.buffers:  # mostly one: a generator would cost more than the sum
            size += part.size if isinstance(part, Ref) else len(part)
        return size


Packed = bytes | Large
PACKED = frozenset((bytes, Large))
"""The types of what was packed. An atom, which travels as it is, has none of them."""


def large_to_bytes(large: Large) -> bytes:
    """As nested tuples of numbers: a pickle of our classes takes ten times as long to open."""
    return dumps((_flat(large.pickle), [_flat(part) for part in large.buffers]), protocol=5)


def large_from_bytes(data: bytes | memoryview) -> Large:
    body, buffers = loads(data)
    return Large(_bent(body), tuple([_bent(part) for part in buffers]))


def _flat(part: Any) -> Any:
    return (part.piece, part.offset, part.capacity, part.size) if isinstance(part, Ref) else part


def _bent(part: Any) -> Any:
    return Ref(*part) if type(part) is tuple else part


@dataclass(frozen=True, slots=True)
class Unpicklable:
    text: str
    """For the user: what, where inside it, and what to do."""


class Serializer:
    """For one thread, or under a lock.

    ``main_is_known``: the other side has the names of ``__main__``. ``large_from``: so many bytes are large.
    """

    def __init__(self, *, main_is_known: bool = True, large_from: int = THRESHOLD) -> None:
        self._main_is_known = main_is_known
        self._large_from = large_from
        self._apart: list[memoryview] = []
        self._keep = self._keep_inside  # bound once

    def serialize(self, value: Any) -> bytes | Loose | Unpicklable:
        """Hot."""
        kind, keep = type(value), self._keep
        if kind in RAW and len(value) >= self._large_from:
            value = _Lifted(value, kind)
        try:
            data = dumps(value, 5, buffer_callback=keep) if "torch" not in modules else _dumps_tensors(value, keep)
            if NAMED in data and not self._main_is_known and b"__main__" in data and refers_to_main(value):
                self._apart = []
                data = _dumps_by_value(value)
        except KeyboardInterrupt:
            self._apart = []
            raise
        except BaseException as error:  # SystemExit too: a __reduce__ is user code, and this is its task's failure
            self._apart = []
            return self._rescue(value, error)
        return data if not self._apart and len(data) < self._large_from else self._with_what_is_apart(data)

    def _with_what_is_apart(self, data: bytes) -> Loose:
        apart, self._apart = self._apart, []
        return Loose(data, apart)

    def _rescue(self, value: Any, error: BaseException) -> bytes | Loose | Unpicklable:
        """Cloudpickle can do what pickle cannot name: lambdas, classes of ``__main__`` that came here by value."""
        if isinstance(error, WillNotPickle):
            return Unpicklable(str(error))
        by_value = cloudpickle_dumps()
        if by_value is not None:
            try:
                data = by_value(value)
                return data if len(data) < self._large_from else Loose(data, [])
            except KeyboardInterrupt:
                raise
            except BaseException:
                pass  # the first error is the one that names the user's object
        from gpu_dispatch.transport.explain import explain_pickling_error

        return Unpicklable(explain_pickling_error(value, error))

    def _keep_inside(self, buffer: PickleBuffer) -> bool:
        """Called for each buffer: false leaves it out of the pickle."""
        raw = buffer.raw()
        if raw.nbytes < self._large_from:
            return True
        self._apart.append(raw)
        return False


class Packer:
    """For one direction of one channel."""

    def __init__(self, arena: ArenaWriter | None, serializer: Serializer | None = None) -> None:
        self._arena = arena
        self.serialize = (serializer or Serializer()).serialize

    def pack(self, value: Any) -> bytes | Large:
        """Raises WillNotPickle, with an explanation."""
        data = self.serialize(value)
        return data if isinstance(data, bytes) else self.place(data)

    def place(self, data: Loose | Unpicklable) -> bytes | Large:
        """What is large, into the arena as far as there is room. Raises WillNotPickle for what is Unpicklable."""
        if isinstance(data, Unpicklable):
            raise WillNotPickle(data.text)
        placed: list[Ref | bytearray] = []
        try:
            for buffer in data.buffers:
                placed.append(self._place(buffer) or bytearray(buffer))
            body = data.pickle
            where = self._place(memoryview(body)) if len(body) >= THRESHOLD else None
        except BaseException:  # an interrupt, or no memory
            if self._arena is not None:
                self._arena.release([part for part in placed if isinstance(part, Ref)])
            raise
        return Large(where or body, tuple(placed)) if placed or where else body

    def _place(self, buffer: memoryview) -> Ref | None:
        return None if self._arena is None else self._arena.place(buffer)


def _dumps_tensors(value: Any, keep: Callable[[PickleBuffer], bool]) -> bytes:
    if not _torch_is_loaded():
        return dumps(value, 5, buffer_callback=keep)
    from gpu_dispatch.transport.tensors import TENSOR_REDUCERS

    out = io.BytesIO()
    pickler = Pickler(out, protocol=5, buffer_callback=keep)
    pickler.dispatch_table = TENSOR_REDUCERS
    pickler.dump(value)
    return out.getvalue()


def dumps_small(values: Sequence[Any]) -> list[bytes] | None:
    """All of them, each by itself, in one loop at the speed of C. ``None``: they are to be taken one by one, since one
    is large, or holds objects of a class, or something is the matter with it."""
    try:
        pickles = list(map(_dumps_small, values))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
    return pickles if max(map(len, pickles)) < THRESHOLD and NAMED not in b"".join(pickles) else None


def _dumps_small(value: Any) -> bytes:
    return dumps(value, 5, buffer_callback=_refuse_large)


def _refuse_large(buffer: PickleBuffer) -> bool:
    if buffer.raw().nbytes >= THRESHOLD:
        raise WillNotPickle("it belongs into the arena")
    return True


def _dumps_by_value(value: Any) -> bytes:
    by_value = cloudpickle_dumps()
    if by_value is None:
        raise WillNotPickle(
            "It refers to a name of the main script, which the workers do not import: "
            "move that class or function into a module, or `pip install cloudpickle`."
        )
    return by_value(value)


def _torch_is_loaded() -> bool:
    return "torch" in modules and hasattr(modules["torch"], "Tensor")  # else it is being loaded in another thread


class _Lifted:
    """Bytes as a buffer, so that they are copied into the arena and not, before that, into a pickle."""

    def __init__(self, data: Any, kind: type) -> None:
        self._data, self._kind = data, kind

    def __reduce_ex__(self, _protocol: object) -> tuple[Any, ...]:
        return self._kind, (PickleBuffer(self._data),)


class _MainFinder(Pickler):
    found = False

    def reducer_override(self, part: Any) -> Any:
        named = part if isinstance(part, (type, type(refers_to_main))) else type(part)
        self.found = self.found or named.__module__ == "__main__"
        return NotImplemented


def refers_to_main(value: Any) -> bool:
    """Whether a class or function of ``__main__`` is needed to open its pickle; a text with that word is not."""
    finder = _MainFinder(io.BytesIO(), protocol=5, buffer_callback=lambda buffer: None)
    finder.dump(value)
    return finder.found


def unpack(packed: Packed, arena: ArenaReader | None) -> Any:
    """Raises whatever unpickling raises."""
    if type(packed) is bytes:
        return loads(packed)
    assert isinstance(packed, Large)
    # All views are taken first: a piece whose view was never made would never be freed.
    buffers = [_view(part, arena) for part in packed.buffers]
    return loads(_view(packed.pickle, arena), buffers=buffers)


def _view(part: Any, arena: ArenaReader | None) -> Any:
    if not isinstance(part, Ref):
        return part
    assert arena is not None
    return arena.view(part)


def discard(packed: Packed, arena: ArenaReader) -> None:
    """It will not be unpacked: let go of what it holds."""
    if isinstance(packed, Large):
        for ref in (*packed.buffers, packed.pickle):
            if isinstance(ref, Ref):
                arena.drop(ref)


def plain_dumps(value: Any, *, main_is_known: bool = False) -> bytes:
    """For what is sent once: the arguments of setup, functions among the options."""
    data = Packer(None, Serializer(main_is_known=main_is_known, large_from=ALL_INSIDE)).pack(value)
    assert isinstance(data, bytes)
    return data


def cloudpickle_dumps() -> Dumps | None:
    try:
        import cloudpickle
    except ImportError:
        return None
    return lambda value: cloudpickle.dumps(value, protocol=5)


def pack_together(items: Sequence[Any]) -> bytes | None:
    """All in one pickle, which takes half the time of one for each. Only when nothing can go wrong with one of them
    alone, and nothing that one task does to its item can be seen by another: atoms, and tuples and dicts of atoms."""
    try:
        if not _is_plain(items):
            return None
        data = dumps(list(items), 5)
    except RuntimeError:  # somebody changes one of the dicts at this moment
        return None
    return data if len(data) < THRESHOLD * len(items) else None  # long texts are better off in the arena


def _is_plain(items: Sequence[Any]) -> bool:
    kinds = set(map(type, items))
    if kinds <= ATOMS:
        return True
    if kinds == {tuple}:
        return ATOMS.issuperset(map(type, chain.from_iterable(items)))
    if kinds == {dict} and len(set(map(id, items))) == len(items):
        values, keys = chain.from_iterable(map(dict.values, items)), chain.from_iterable(items)
        return ATOMS.issuperset(map(type, chain(values, keys)))
    return False


def packed_size(packed: Packed) -> int:
    return packed.size if isinstance(packed, Large) else len(packed)
