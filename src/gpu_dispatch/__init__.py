"""gpu_dispatch: keep every GPU of a machine busy with a class and an iterable.

from gpu_dispatch import BaseWorker, Dispatcher
"""

from __future__ import annotations

TYPE_CHECKING = False  # not imported: `typing` would cost every worker some milliseconds at birth
if TYPE_CHECKING:
    from typing import Any

    from gpu_dispatch.dispatcher import Dispatcher as Dispatcher
    from gpu_dispatch.errors import AllWorkersFailed as AllWorkersFailed
    from gpu_dispatch.errors import ErrorReport as ErrorReport
    from gpu_dispatch.errors import GPUDispatchError as GPUDispatchError
    from gpu_dispatch.errors import SoftTimeout as SoftTimeout
    from gpu_dispatch.errors import Terminated as Terminated
    from gpu_dispatch.errors import UsageError as UsageError
    from gpu_dispatch.options import RetryPolicy as RetryPolicy
    from gpu_dispatch.protocol import CleanupFailed as CleanupFailed
    from gpu_dispatch.protocol import ProgressEvent as ProgressEvent
    from gpu_dispatch.protocol import SetupFailed as SetupFailed
    from gpu_dispatch.protocol import TaskError as TaskError
    from gpu_dispatch.protocol import TaskStarted as TaskStarted
    from gpu_dispatch.protocol import TaskSuccess as TaskSuccess
    from gpu_dispatch.protocol import TaskTimeout as TaskTimeout
    from gpu_dispatch.records import distribute_to_gpus as distribute_to_gpus
    from gpu_dispatch.records import run_multi_gpu as run_multi_gpu
    from gpu_dispatch.worker import BaseWorker as BaseWorker

__version__ = "0.1.0"

# Looked up on first use: a worker process imports this package too, and needs only BaseWorker.
_HOMES = {
    "AllWorkersFailed": "errors",
    "BaseWorker": "worker",
    "CleanupFailed": "protocol",
    "Dispatcher": "dispatcher",
    "ErrorReport": "errors",
    "GPUDispatchError": "errors",
    "ProgressEvent": "protocol",
    "RetryPolicy": "options",
    "SetupFailed": "protocol",
    "SoftTimeout": "errors",
    "TaskError": "protocol",
    "TaskStarted": "protocol",
    "TaskSuccess": "protocol",
    "TaskTimeout": "protocol",
    "Terminated": "errors",
    "UsageError": "errors",
    "distribute_to_gpus": "records",
    "run_multi_gpu": "records",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'gpu_dispatch' has no attribute {name!r}")
    module = __import__(f"gpu_dispatch.{home}", fromlist=[name])
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
