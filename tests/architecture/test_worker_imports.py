"""What a worker process imports at birth: everything else costs every worker of every run."""

from __future__ import annotations

from light_worker import SeesModules

from gpu_dispatch import Dispatcher

NEVER = {"rich", "numpy", "ray", "starlette", "uvicorn", "tqdm", "cloudpickle", "torch", "multiprocessing", "asyncio"}
NOT_AT_BIRTH = {"dataclasses", "typing", "inspect", "pickle", "socket", "enum", "re", "ctypes", "random", "traceback"}
PARENT_ONLY = ("engine", "scheduling", "observe", "ui", "cli", "backends", "devices", "options", "protocol")


def test_a_worker_imports_little_and_nothing_of_the_parent() -> None:
    seen: list[list[str]] = []
    Dispatcher(SeesModules, [0]).run([0], lambda task, result, worker: seen.append(result))
    modules = set(seen[0])
    assert not modules & NEVER
    assert not modules & NOT_AT_BIRTH
    assert not [name for name in modules if name.startswith(tuple(f"gpu_dispatch.{room}" for room in PARENT_ONLY))]
