"""Objects to bytes and back, one pickle per task, so that a bad one hurts only itself.

Items (parent → worker) travel as one of two forms:
    ("together", pickle of the whole list)  when all are plain data: these cannot fail one by one
    ("each", [Packed, Packed, …])           otherwise; each is opened in the worker, inside its own task

A Packed is the pickle itself, or, when something in it was large, a ``Large``: then buffers (arrays, tensors), and
the pickle too if it is large by itself (bytes, long strings), lie in the arena.
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

ATOMS = frozenset((int, float, bool, str, type(None)))
"""Types that always pickle and always unpickle."""


STACK_GLOBAL = b"\x93"
"""What stands behind each name of a class or function, in protocols 4 and 5."""


class WillNotPickle(Exception):
    """Carries a text for the user: what, where inside it, and what to do."""


@dataclass(frozen=True, slots=True)
class Large:
    pickle: bytes | Ref
    buffers: tuple[Ref, ...]

    @property
    def size(self) -> int:
        size = self.pickle.size if isinstance(self.pickle, Ref) else len(self.pickle)
        for ref in self.buffers:  # mostly one: a generator would cost more than the sum
            size += ref.size
        return size


Packed = bytes | Large
PACKED = frozenset((bytes, Large))
"""The types of what was packed. An atom, which travels as it is, has none of them."""


def large_to_bytes(large: Large) -> bytes:
    """As nested tuples of numbers: a pickle of our classes takes ten times as long to open."""
    body = large.pickle
    return dumps((_flat(body) if isinstance(body, Ref) else body, [_flat(ref) for ref in large.buffers]), protocol=5)


def large_from_bytes(data: bytes | memoryview) -> Large:
    body, buffers = loads(data)
    return Large(Ref(*body) if type(body) is tuple else body, tuple([Ref(*ref) for ref in buffers]))


def _flat(ref: Ref) -> tuple[int, int, int, int]:
    return ref.piece, ref.offset, ref.capacity, ref.size


class Packer:
    """Pickles for one direction of one channel. ``main_is_known``: the other side has the names of ``__main__``."""

    def __init__(self, arena: ArenaWriter | None, *, main_is_known: bool = True) -> None:
        self._arena = arena
        self._main_is_known = main_is_known
        self._placed: list[Ref] = []
        self._keep = None if arena is None else self._keep_inside  # bound once

    def pack(self, value: Any) -> bytes | Large:
        """Raises WillNotPickle, with an explanation."""
        kind = type(value)
        if (kind is bytes or kind is bytearray) and len(value) >= THRESHOLD:
            value = _Lifted(value, kind)
        try:
            data = self._dumps_tensors(value) if "torch" in modules else dumps(value, 5, buffer_callback=self._keep)
            if not self._main_is_known and _names_main(data) and refers_to_main(value):
                data = self._by_value(value)
        except KeyboardInterrupt:
            self._drop_placed()
            raise
        except BaseException as error:  # SystemExit too: a __reduce__ is user code, and this is its task's failure
            self._drop_placed()
            data = self._rescue(value, error)
        return data if len(data) < THRESHOLD and not self._placed else self._large(data)

    def pack_small(self, values: Sequence[Any]) -> list[bytes] | None:
        """All of them, each by itself, in one loop at the speed of C. ``None``: one is large, or something is the
        matter with one, so they are to be packed one by one."""
        if _torch_is_loaded() or type(values[0]) is bytes:
            return None
        try:
            packed = list(map(_dumps_small, values))
        except KeyboardInterrupt:
            raise
        except BaseException:
            return None
        if max(map(len, packed)) >= THRESHOLD:
            return None
        return packed if self._main_is_known or not _names_main(b"".join(packed)) else None

    def _dumps_tensors(self, value: Any) -> bytes:
        if self._arena is None or not _torch_is_loaded():
            return dumps(value, 5, buffer_callback=self._keep)
        from gpu_dispatch.transport.tensors import TENSOR_REDUCERS

        out = io.BytesIO()
        pickler = Pickler(out, protocol=5, buffer_callback=self._keep)
        pickler.dispatch_table = TENSOR_REDUCERS
        pickler.dump(value)
        return out.getvalue()

    def _keep_inside(self, buffer: PickleBuffer) -> bool:
        """Called for each buffer: false takes it out of the pickle, because it lies in the arena."""
        raw = buffer.raw()
        if raw.nbytes < THRESHOLD or self._arena is None:
            return True
        ref = self._arena.place(raw)
        if ref is None:
            return True
        self._placed.append(ref)
        return False

    def _large(self, data: bytes) -> bytes | Large:
        refs, self._placed = tuple(self._placed), []
        body: bytes | Ref = data
        if len(data) >= THRESHOLD and self._arena is not None:
            body = self._arena.place(memoryview(data)) or data
        return Large(body, refs) if refs or isinstance(body, Ref) else data

    def _rescue(self, value: Any, error: BaseException) -> bytes:
        """Cloudpickle can do what pickle cannot name: lambdas, classes of ``__main__`` that came here by value."""
        if isinstance(error, WillNotPickle):
            raise error
        by_value = cloudpickle_dumps()
        if by_value is not None:
            try:
                return by_value(value)
            except KeyboardInterrupt:
                raise
            except BaseException:
                pass  # the first error is the one that names the user's object
        from gpu_dispatch.transport.explain import explain_pickling_error

        raise WillNotPickle(explain_pickling_error(value, error)) from error

    def _by_value(self, value: Any) -> bytes:
        self._drop_placed()
        by_value = cloudpickle_dumps()
        if by_value is None:
            raise WillNotPickle(
                "It refers to a name of the main script, which the workers do not import: "
                "move that class or function into a module, or `pip install cloudpickle`."
            )
        return by_value(value)

    def _drop_placed(self) -> None:
        if self._placed and self._arena is not None:
            self._arena.release(self._placed)
        self._placed = []


def _dumps_small(value: Any) -> bytes:
    return dumps(value, 5, buffer_callback=_refuse_large)


def _refuse_large(buffer: PickleBuffer) -> bool:
    if buffer.raw().nbytes >= THRESHOLD:
        raise WillNotPickle("it belongs into the arena")
    return True


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


def _names_main(data: bytes) -> bool:
    """Whether a pickle may refer to it. Looking for one byte takes a tenth of the time of looking for the name."""
    return STACK_GLOBAL in data and b"__main__" in data


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
    assert arena is not None
    # All views are taken first: a piece whose view was never made would never be freed.
    buffers = [arena.view(ref) for ref in packed.buffers]
    body = arena.view(packed.pickle) if isinstance(packed.pickle, Ref) else packed.pickle
    return loads(body, buffers=buffers)


def discard(packed: Packed, arena: ArenaReader) -> None:
    """It will not be unpacked: let go of what it holds."""
    if isinstance(packed, Large):
        for ref in (*packed.buffers, packed.pickle):
            if isinstance(ref, Ref):
                arena.drop(ref)


def plain_dumps(value: Any, *, main_is_known: bool = False) -> bytes:
    """For what is sent once: the arguments of setup, functions among the options."""
    data = Packer(None, main_is_known=main_is_known).pack(value)
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
