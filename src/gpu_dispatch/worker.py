"""The contract that users implement. No machinery lives here.

    class MyWorker(BaseWorker):
        def setup(self, gpu_id, seed, model_path): ...   # once, when the worker process starts
        def process(self, item): ...                      # once per item
        def cleanup(self): ...                            # once, when the run ends

Optional, looked up by name and never required: ``process_batch(items)``, ``preprocess(item)``,
``postprocess(result)``.

How these methods are called is the business of ``runtime/``.
"""

from __future__ import annotations

import abc

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from typing import Any

_SEED_SPACE = 2**32  # what numpy.random.seed accepts
_MIX = 0x9E3779B97F4A7C15  # odd 64-bit constant: spreads neighbouring task ids over the seed space


def derive_task_seed(base_seed: int, task_id: int) -> int:
    """A seed that depends on the task alone, not on which worker runs it or on which attempt.

    The finaliser of splitmix64: neighbouring ids give unrelated seeds, and nothing is imported for it.
    """
    x = (base_seed * _MIX + task_id + 1) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (x ^ (x >> 31)) % _SEED_SPACE


class BaseWorker(abc.ABC):
    """Subclass this, implement ``setup`` and ``process``, and hand the class to a Dispatcher.

    ``__init__`` runs in the worker process as well; keep it empty or light, and never load a model in it.
    """

    # Class attributes rather than something set in __init__: subclasses need not call super().__init__().
    device: str = "cpu"
    """What to use inside the worker: ``"cuda:0"`` (the mask makes the worker's own GPU number 0) or ``"cpu"``."""
    worker_id: int = 0
    """The number that callbacks get for this worker."""
    task_id: int | None = None
    """The task being processed, ``None`` between tasks. With ``process_batch``: the first of the batch."""
    _batch_ids: tuple[int, ...] = ()
    base_seed: int = 42

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """A worker that defines ``process_batch`` need not define ``process`` as well."""
        super().__init_subclass__(**kwargs)
        if "process_batch" in cls.__dict__ and cls.process is BaseWorker.process:
            cls.process = _process_as_batch_of_one  # type: ignore[method-assign]

    @property
    def task_ids(self) -> tuple[int, ...]:
        """The tasks being processed: one, or those of the batch."""
        return self._batch_ids or (() if self.task_id is None else (self.task_id,))

    @property
    def task_seed(self) -> int | None:
        """A seed derived from (base_seed, task_id): the same on every GPU, in every order, on every retry."""
        return None if self.task_id is None else derive_task_seed(self.base_seed, self.task_id)

    if TYPE_CHECKING:
        # Type checkers compare overrides with this: yours may name the arguments that it takes from run().
        @abc.abstractmethod
        def setup(self, *args: Any, **kwargs: Any) -> None: ...
    else:

        @abc.abstractmethod
        def setup(self, gpu_id, seed, **kwargs):
            """Called once in the worker process, before any item. Load the model here.

            ``gpu_id`` is the id that was asked for (an int, or the string of a UUID); ``self.device`` says what to use.
            """

    @abc.abstractmethod
    def process(self, data: Any) -> Any:
        """Called for each item. What it returns must pickle."""

    def cleanup(self) -> None:  # noqa: B027 -- optional on purpose
        """Called once when the run ends. Release what the end of the process would not."""


def _process_as_batch_of_one(self: Any, data: Any) -> Any:
    (result,) = self.process_batch([data])
    if isinstance(result, BaseException):
        raise result
    return result
