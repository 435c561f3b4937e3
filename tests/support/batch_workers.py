"""Workers that take batches, or do I/O beside the model. Each call is written down in a file, one line each."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from faulty_workers import FAULTS

from gpu_dispatch import BaseWorker


class Diary:
    """Lines appended by any number of processes and threads, whole or not at all."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *words: object) -> None:
        os.write(self._fd, (" ".join(map(str, words)) + "\n").encode())


def diary(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def calls(path: Path) -> list[list[int]]:
    """The task ids of each call of process_batch, in order."""
    return [[int(word) for word in words] for kind, *words in diary(path) if kind == "call"]


class Batched(BaseWorker):
    """Items are numbers, returned times ten; or the name of a fault, which is then committed."""

    def setup(self, gpu_id: Any, seed: int, log: str | None = None, **options: Any) -> None:
        self.log = Diary(log or os.devnull)
        self.options = options

    def process_batch(self, items: list[Any]) -> Any:
        self.log.write("call", *self.task_ids)
        return [self.one(item) for item in items]

    def one(self, item: Any) -> Any:
        if isinstance(item, str):
            FAULTS[item]()
        return item * 10


class AnswersOddly(Batched):
    """Returns what the item says: the shape of an answer is what is tested here."""

    def process_batch(self, items: list[Any]) -> Any:
        import numpy

        values = [item * 10 for item in items]
        return {
            "list": values,
            "tuple": tuple(values),
            "array": numpy.array(values),
            "generator": (value for value in values),
            "none": None,
            "dict": dict(enumerate(values)),
            "text": "x" * len(values),
            "number": 5,
            "short": values[:-1],
            "long": [*values, 0],
            "errors": [ValueError(f"item {item}") if item % 3 == 0 else item * 10 for item in items],
        }[self.options["answer"]]


class SmallDevice(Batched):
    """Memory for ``memory`` items; an item that is a tuple takes as much as its second part says."""

    def process_batch(self, items: list[Any]) -> Any:
        self.log.write("call", *self.task_ids)
        needed = sum(item[1] if isinstance(item, tuple) else 1 for item in items)
        if needed > self.options["memory"]:
            self.log.write("oom", len(items))
            raise RuntimeError(f"CUDA out of memory. Tried to allocate {needed} items.")
        time.sleep(0.002 + 0.0001 * len(items))
        return [item[0] if isinstance(item, tuple) else item for item in items]


class Fragile(Batched):
    """A device whose context breaks on the item ``"bad"``, for good; on ``"once"`` only the first time."""

    broken = False

    def process_batch(self, items: list[Any]) -> Any:
        self.log.write("call", *self.task_ids)
        if "once" in items and not os.path.exists(self.options["mark"]):
            Path(self.options["mark"]).touch()
            self.broken = True
        self.broken = self.broken or "bad" in items
        if self.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return items


class FragileOneByOne(Fragile):
    process_batch = None  # type: ignore[assignment]

    def process(self, item: Any) -> Any:
        return Fragile.process_batch(self, [item])[0]


class Pipeline(Batched):
    """All three stages. Items: a number, or (stage, fault)."""

    def preprocess(self, item: Any) -> Any:
        self.log.write("pre", self.task_id, threading.current_thread().name)
        self._commit("preprocess", item)
        time.sleep(self.options.get("pre_s", 0.0))
        return item

    def process_batch(self, items: list[Any]) -> Any:
        self.log.write("call", *self.task_ids)
        for item in items:
            self._commit("process", item)
        time.sleep(self.options.get("call_s", 0.0))
        return items

    def postprocess(self, item: Any) -> Any:
        self.log.write("post", self.task_id, threading.current_thread().name)
        self._commit("postprocess", item)
        time.sleep(self.options.get("post_s", 0.0))
        return item * 10 if isinstance(item, int) else item

    def _commit(self, stage: str, item: Any) -> None:
        if isinstance(item, tuple) and item[0] == stage:
            FAULTS[item[1]]()


class OneByOnePipeline(Pipeline):
    """No batches, only I/O beside the model."""

    process_batch = None  # type: ignore[assignment]

    def process(self, item: Any) -> Any:
        self.log.write("call", *self.task_ids)
        self._commit("process", item)
        time.sleep(self.options.get("call_s", 0.0))
        return item


class SaysItsTasks(Batched):
    def preprocess(self, item: Any) -> Any:
        time.sleep(0.001)
        return item, self.task_id, self.task_ids, self.task_seed

    def process_batch(self, items: list[Any]) -> Any:
        return [(*item, self.task_id, self.task_ids, self.task_seed) for item in items]

    def postprocess(self, item: Any) -> Any:
        return (*item, self.task_id, self.task_ids, self.task_seed)


class ArrayWorker(BaseWorker):
    """Arrays in, arrays out: the same numbers plus one, in the same memory."""

    def setup(self, gpu_id: Any, seed: int, keep: bool = False) -> None:
        self.kept: list[Any] = [] if keep else None  # type: ignore[assignment]

    def process(self, item: Any) -> Any:
        if self.kept is not None:
            self.kept.append(item)
        item += 1  # it is ours to write to
        return item


class CrashingDevice(SmallDevice):
    def setup(self, gpu_id: Any, seed: int, **options: Any) -> None:
        super().setup(gpu_id, seed, **options)
        self.log.write("setup")

    def process_batch(self, items: list[Any]) -> Any:
        if "exit3" in items:
            self.log.write("call", *self.task_ids)
            os._exit(3)
        return super().process_batch(items)


class SlowDevice(SmallDevice):
    def process_batch(self, items: list[Any]) -> Any:
        self.log.write("call", *self.task_ids)
        time.sleep(0.02 * len(items))
        return items


class DawdlesOnGpu0(Pipeline):
    def setup(self, gpu_id: Any, seed: int, **options: Any) -> None:
        super().setup(gpu_id, seed, **options)
        self.options["call_s"] = 0.3 if gpu_id == 0 else 0.001


class ArrayPipeline(Pipeline):
    def preprocess(self, item: Any) -> Any:
        item += 1
        return item

    def postprocess(self, item: Any) -> Any:
        return item


class BreaksWhenItLooks(Pipeline):
    """Kernels run behind the program: their errors come out where the result is fetched."""

    def postprocess(self, item: Any) -> Any:
        if item == "broken":
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return item


class Unpicklable(Batched):
    def process_batch(self, items: list[Any]) -> Any:
        return [{"lock": threading.Lock()} if item == 7 else item for item in items]


class Texts(Batched):
    def process_batch(self, items: list[str]) -> list[int]:
        self.log.write("call", *self.task_ids)
        return [len(item) for item in items]


class Sums(Batched):
    def process_batch(self, items: list[Any]) -> list[Any]:
        return [(int(item.min()), int(item.max())) for item in items]


class TellsTasks(Batched):
    def process_batch(self, items: list[Any]) -> list[Any]:
        return [(self.task_id, self.task_ids, self.task_seed)] * len(items)


class KilledForMemory(Batched):
    """The kernel's killer ends it when it takes more than ``memory`` items at once."""

    def process_batch(self, items: list[Any]) -> Any:
        self.log.write("call", *self.task_ids)
        if len(items) > self.options["memory"]:
            os.kill(os.getpid(), 9)
        time.sleep(0.002)
        return items
