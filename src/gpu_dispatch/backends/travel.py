"""How the user's class gets into a worker: by name from its module, by value, or by importing the script again.

lives in an importable module            by name
lives in __main__, cloudpickle is there  by value: the script is not run again, notebooks work
lives in __main__, no cloudpickle        by name, and the workers import the script (it needs a guard)
lives inside a function                  by value with cloudpickle, else a clear error
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from gpu_dispatch.errors import UsageError, WorkerClassError
from gpu_dispatch.light import dataclass
from gpu_dispatch.transport.codec import WillNotPickle, cloudpickle_dumps, plain_dumps
from gpu_dispatch.transport.pickling import dumps
from gpu_dispatch.worker import BaseWorker

TYPE_CHECKING = False  # not imported: `typing` would hold up the first task by some milliseconds
if TYPE_CHECKING:
    from typing import Any


@dataclass(frozen=True, slots=True)
class Luggage:
    """What every worker of a run is given to come to life."""

    worker_cls: bytes
    setup_kwargs: bytes
    main_path: str | None
    main_name: str | None

    @property
    def main_is_imported(self) -> bool:
        return self.main_path is not None or self.main_name is not None


def check_worker_class(worker_cls: object) -> type[BaseWorker]:
    if not isinstance(worker_cls, type):
        raise WorkerClassError(
            f"worker_cls must be a class, got {worker_cls!r:.100}"
            + (" (pass the class itself, not an instance)" if isinstance(worker_cls, BaseWorker) else "")
        )
    if not issubclass(worker_cls, BaseWorker):
        raise WorkerClassError(f"{worker_cls.__qualname__} must inherit from gpu_dispatch.BaseWorker")
    if worker_cls.__abstractmethods__:
        missing = ", ".join(sorted(worker_cls.__abstractmethods__))
        raise WorkerClassError(f"{worker_cls.__qualname__} is abstract: it does not implement {missing}")
    made_by = (worker_cls.__init__, worker_cls.__new__, type(worker_cls).__call__)
    if made_by != (object.__init__, object.__new__, type.__call__):
        _check_constructor(worker_cls)
    return worker_cls


def _check_constructor(worker_cls: type[BaseWorker]) -> None:
    import inspect  # here: few workers have a constructor, and it takes as long as starting an interpreter

    try:
        inspect.signature(worker_cls).bind()
    except TypeError as error:
        raise WorkerClassError(
            f"{worker_cls.__qualname__}.__init__ must work without arguments ({error}): "
            "pass them to run(...), they reach setup()"
        ) from None
    except ValueError:
        pass  # no signature to look at (a class written in C)


def pack(worker_cls: type[BaseWorker], setup_kwargs: Mapping[str, Any]) -> Luggage:
    main_path: str | None = None
    main_name: str | None = None
    data = _by_value(worker_cls) if _lives_in_main(worker_cls) else None
    if data is None:
        data = _by_name(worker_cls)
        if _lives_in_main(worker_cls):
            main_path, main_name = _main_module(worker_cls)
            sys.modules.setdefault("__mp_main__", sys.modules["__main__"])  # results come back under this name
    main_is_imported = main_path is not None or main_name is not None
    try:
        kwargs = plain_dumps(dict(setup_kwargs), main_is_known=main_is_imported)
    except WillNotPickle as error:
        raise UsageError(f"the keyword arguments for setup() cannot be sent to the workers. {error}") from None
    return Luggage(data, kwargs, main_path, main_name)


def _lives_in_main(worker_cls: type) -> bool:
    return worker_cls.__module__ in ("__main__", "__mp_main__")


def _by_value(worker_cls: type) -> bytes | None:
    by_value = cloudpickle_dumps()
    if by_value is None:
        return None
    try:
        return by_value(worker_cls)
    except Exception:  # it refers to something of the script that will not pickle: an open file, a lock
        return None


def _by_name(worker_cls: type) -> bytes:
    try:
        return dumps(worker_cls, protocol=5)
    except Exception as error:
        data = _by_value(worker_cls)
        if data is not None:
            return data
        raise WorkerClassError(
            f"{worker_cls.__qualname__} cannot be sent to worker processes ({error}). Define it at the top level of a "
            "module, or `pip install cloudpickle`."
        ) from None


def _main_module(worker_cls: type) -> tuple[str | None, str | None]:
    """(path, None) of a script, or (None, name) of a module started with ``python -m``."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return None, spec.name
    path = getattr(main, "__file__", None)
    if path is None or not os.path.isfile(path):
        raise WorkerClassError(
            f"{worker_cls.__qualname__} lives in an interactive session, which worker processes cannot import. "
            "`pip install cloudpickle`, or put the class into a module."
        )
    return os.path.abspath(path), None
