"""Making the names of the user's ``__main__`` available in a worker, as ``multiprocessing``'s spawn does.

Needed only when something pickled refers to ``__main__`` by name: with cloudpickle the worker class travels by value
and the script is not run again. When the script *is* imported again, and starts a run while that happens (no
``if __name__ == "__main__"`` guard), the dispatcher in the worker refuses instead of starting workers of its own.
"""

from __future__ import annotations

import sys

from gpu_dispatch.errors import MainGuardError

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from typing import Any

_importing_main = False


def restore(path: str | None, name: str | None) -> None:
    """Import the parent's main module under the name ``__mp_main__``, and let it stand as ``__main__``."""
    global _importing_main
    if path is None and name is None:
        return
    import runpy

    _importing_main = True
    try:
        namespace: dict[str, Any]
        if name is not None:
            namespace = runpy.run_module(name, run_name="__mp_main__", alter_sys=True)
        else:
            assert path is not None
            namespace = runpy.run_path(path, run_name="__mp_main__")
    finally:
        _importing_main = False
    module = type(sys)("__mp_main__")
    module.__dict__.update(namespace)
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module


def refuse_run_during_import() -> None:
    """Called by the dispatcher before it starts anything."""
    if _importing_main:
        raise MainGuardError(
            "This script starts a run while a worker is importing it.\n"
            "Put the lines that start it under a guard:\n"
            '    if __name__ == "__main__":\n'
            "        dispatcher.run(...)\n"
            "or `pip install cloudpickle`: then the script is not imported by the workers at all."
        )


def explain(error: BaseException) -> str | None:
    """A text without a traceback for the error above, however deep in the script it was raised."""
    return f"{GUARD_MARK}\n{error}" if isinstance(error, MainGuardError) else None


GUARD_MARK = "no __main__ guard"
"""The first line of a setup failure that is really a missing guard, so that the parent can raise MainGuardError."""
