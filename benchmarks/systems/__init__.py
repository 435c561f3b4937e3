"""One adapter per system: ``run(job)`` as a user of that system would write it.

An adapter imports its own library at the top of its own file and nobody else's; a system whose library is not
installed is left out of the run, and the table says so.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.job import Job


@dataclass(frozen=True, slots=True)
class System:
    name: str
    title: str
    needs: str | None = None
    """The module without which it cannot run."""
    on_request: bool = False
    """Only when named: Ray takes longer to start than everybody else to be measured; loky is what joblib runs on."""

    def installed(self) -> bool:
        return self.needs is None or importlib.util.find_spec(self.needs) is not None

    def adapter(self) -> Callable[[Job], None]:
        run: Callable[[Job], None] = importlib.import_module(f"benchmarks.systems.{self.name}").run
        return run


SYSTEMS: tuple[System, ...] = (
    System("gpu_dispatch", "gpu_dispatch (timeouts armed, crash recovery on)"),
    System("shared_queue", "one multiprocessing.Queue for all workers, a message per task, SIGALRM timeouts"),
    System("pool", "multiprocessing.Pool.imap_unordered, chunksize=1 (its default)"),
    System("pool_64", "multiprocessing.Pool.imap_unordered, chunksize=64"),
    System("concurrent_futures", "concurrent.futures.ProcessPoolExecutor.map"),
    System("mpire", "mpire, automatic chunks", "mpire"),
    System("joblib", "joblib.Parallel (loky backend, automatic batches)", "joblib"),
    System("loky", "loky reusable executor, map", "loky", on_request=True),
    System("pebble", "pebble.ProcessPool.map", "pebble"),
    System("ray_actors", "Ray ActorPool.map_unordered", "ray", on_request=True),
    System("ray_data", "Ray Data, map over from_items", "ray", on_request=True),
    System("limit", "the same work with no dispatch at all"),
)
BY_NAME = {system.name: system for system in SYSTEMS}
