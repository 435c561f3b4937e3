"""The worker processes: one Dispatcher, run on a thread of its own.

    task_queue ──► feeder ──► Dispatcher ──► workers
                                  │
    result_queue ◄── FileResult ──┘      one per file that was taken from task_queue, whatever happens

The queues are ordinary queues of this process. A file is an ``AudioFile``, or just a path. ``None`` in the task queue
says that no more will follow.
"""

from __future__ import annotations

import itertools
import os
import queue
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from gpu_dispatch import devices
from gpu_dispatch.dispatcher import Dispatcher
from gpu_dispatch.errors import AllWorkersFailed, ErrorReport
from gpu_dispatch.transcription.engine import DEFAULT_ENGINE, find_engine, prepare_model
from gpu_dispatch.transcription.formats import DEFAULT_FORMATS, parse_formats
from gpu_dispatch.transcription.job import AudioFile, FileResult, TranscriptionJob
from gpu_dispatch.transcription.naming import OutputNames
from gpu_dispatch.transcription.record import printable
from gpu_dispatch.transcription.settings import TranscriptionSettings
from gpu_dispatch.transcription.worker import TranscriptionWorker, windows_in, windows_per_call

_BATCH_WAIT_S = 0.5  # for a full batch: short beside a call of the model, long beside the decoding of a clip

# On a CPU the encoder takes and returns hundreds of megabytes with every call, and glibc gives them back to the kernel,
# which clears them again page by page. Keeping them saves a third of the CPU time (measured: 30.7 s, then 21.3 s).
_KEEP_MEMORY = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


@dataclass(frozen=True, slots=True)
class WorkerHandle:
    """One worker slot, as ``spawn_workers`` returns it; a look at the present, not a copy of the past."""

    worker_id: int
    gpu_id: int | str
    spawner: ProcessSpawner

    @property
    def pid(self) -> int | None:
        return self._now().get("pid")

    @property
    def status(self) -> str:
        return str(self._now().get("status", "initializing"))

    def is_alive(self) -> bool:
        return self.spawner.running and self.status not in ("finished", "out of service")

    def _now(self) -> dict[str, Any]:
        return self.spawner.get_process_status().get(self.worker_id, {})


class ProcessSpawner:
    def __init__(self) -> None:
        self._dispatcher: Dispatcher | None = None
        self._thread: threading.Thread | None = None
        self._tasks: Any = None
        self._results: Any = None
        self._taken: dict[int, AudioFile] = {}  # by task id, until its result is out
        self._labels: dict[int, int | str] = {}  # what a worker is called in results
        self._stopping = False
        self.error: BaseException | None = None
        """What ended the run early: no worker could start, the task queue raised, …"""

    def spawn_workers(
        self,
        gpu_ids: Sequence[int | str] | str,
        task_queue: Any,
        result_queue: Any,
        model_size: str = "base",
        language: str | None = None,
        output_dir: Path | str = "output",
        *,
        input_dir: Path | str | None = None,
        formats: Sequence[str] | str = DEFAULT_FORMATS,
        engine: str | type = DEFAULT_ENGINE,
        settings: TranscriptionSettings | None = None,
        job: TranscriptionJob | None = None,
        **options: Any,
    ) -> list[WorkerHandle]:
        """Start one worker per GPU and return at once.

        ``gpu_ids`` is whatever a Dispatcher takes. ``input_dir`` is the folder whose structure plain paths in the queue
        keep in the output; without it all transcripts go into one folder. ``settings`` (which hold the language too)
        or a whole ``job`` say more about the transcription; ``options`` go to the Dispatcher.
        """
        if self.running:
            raise RuntimeError("the workers of this spawner are running: wait_for_completion(), or use another")
        if job is None:
            found = find_engine(engine)
            chosen = settings or TranscriptionSettings(language=language)
            job = TranscriptionJob(
                found, prepare_model(found, model_size), str(output_dir), chosen, parse_formats(formats)
            )
        task_timeout = options.pop("task_timeout", None)
        # Everything that can be wrong with the arguments is raised here, not on the thread.
        grants = devices.resolve(gpu_ids, os.environ, workers_per_gpu=options.get("workers_per_gpu", 1))
        windows = job.windows_per_call or windows_per_call(grant.device for grant in grants)
        job = replace(job, windows_per_call=windows)
        options.setdefault("batch_size", windows)
        options.setdefault("batch_wait", _BATCH_WAIT_S)
        if all(grant.device == "cpu" for grant in grants):
            kept = {name: value for name, value in _KEEP_MEMORY.items() if name not in os.environ}
            options["env"] = {**kept, **options.get("env", {})}
        dispatcher = Dispatcher(TranscriptionWorker, gpu_ids, batch_by=(windows_in, windows), **options)
        no_gpu = isinstance(gpu_ids, str) and gpu_ids.strip().lower().startswith("cpu")
        self._labels = {
            worker_id: f"cpu-{worker_id}" if no_gpu else grant.gpu_id
            for worker_id, grant in zip(dispatcher.worker_ids, grants, strict=True)
        }
        self._dispatcher, self._tasks, self._results = dispatcher, task_queue, result_queue
        self._taken, self._stopping, self.error = {}, False, None
        names = OutputNames(Path(job.output_dir))
        root = None if input_dir is None else Path(input_dir)
        self._thread = threading.Thread(
            target=self._run, args=(job, task_timeout, names, root), name="gpu-dispatch-spawner"
        )
        self._thread.start()
        return [WorkerHandle(worker_id, label, self) for worker_id, label in self._labels.items()]

    def wait_for_completion(self, timeout: float | None = None) -> bool:
        """Until every file has its result and the workers are gone; ``False`` when ``timeout`` seconds were too few."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def terminate_all(self, grace_s: float = 0.0) -> None:
        """End the run: files that are being transcribed have ``grace_s`` seconds, the others are given up.

        Does not wait. Called again with less, it hurries.
        """
        self._stopping = True
        if self._dispatcher is None or not self.running:
            return
        self._dispatcher.shutdown(grace_s, wait=False)
        try:
            self._tasks.put_nowait(None)  # the feeder may be waiting for a file
        except queue.Full:
            pass  # then it is not

    def get_process_status(self) -> dict[int, dict[str, Any]]:
        """By worker id: pid, status, device, files done and failed, restarts, …"""
        if self._dispatcher is None:
            return {}
        status: dict[int, dict[str, Any]] = self._dispatcher.get_stats()["gpu_status"]
        return status

    def cleanup(self) -> None:
        """Whatever is still running is ended; afterwards the spawner can be used again."""
        self.terminate_all()
        self.wait_for_completion()
        self._dispatcher = self._thread = None

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    # --- on the thread --------------------------------------------------------------------------------------

    def _run(self, job: TranscriptionJob, task_timeout: float | None, names: OutputNames, root: Path | None) -> None:
        assert self._dispatcher is not None
        try:
            self._dispatcher.run(
                self._files(names, root),
                self._on_success,
                self._on_error,
                self._on_timeout,
                task_timeout=task_timeout,
                job=job,
            )
        except BaseException as error:
            self.error = error
        self._give_up_the_rest(names, root)

    def _files(self, names: OutputNames, root: Path | None) -> Iterator[AudioFile]:
        for task_id in itertools.count():
            item = self._tasks.get()
            if item is None or self._stopping:
                if item is not None:
                    self._taken[task_id] = as_audio_file(item, names, root)
                return
            self._taken[task_id] = file = as_audio_file(item, names, root)
            yield file

    def _on_success(self, task_id: int, result: FileResult, worker_id: int) -> None:
        self._taken.pop(task_id)
        self._results.put(replace(result, gpu_id=self._labels.get(worker_id, result.gpu_id)))

    def _on_error(self, task_id: int, error: ErrorReport, worker_id: int) -> None:
        cancelled = error.kind in ("cancelled", "lost") or (self._stopping and error.kind == "crash")
        self._fail(task_id, reason_of(error), worker_id, cancelled=cancelled)

    def _on_timeout(self, task_id: int, timeout: float, worker_id: int) -> None:
        self._fail(task_id, f"took longer than {timeout:g} s", worker_id)

    def _fail(self, task_id: int, reason: str, worker_id: int | None, *, cancelled: bool = False) -> None:
        label = None if worker_id is None or cancelled else self._labels.get(worker_id)
        self._results.put(FileResult(self._taken.pop(task_id).name, label, reason, cancelled=cancelled))

    def _give_up_the_rest(self, names: OutputNames, root: Path | None) -> None:
        """A result for every file that got none: those taken, and those still in the queue up to its end."""
        why = "the run was ended" if self.error is None or self._stopping else f"not tried: {reason_of(self.error)}"
        for task_id in list(self._taken):
            self._fail(task_id, why, None, cancelled=True)
        while True:
            try:
                item = self._tasks.get_nowait()
            except queue.Empty:
                return
            if item is not None:
                name = as_audio_file(item, names, root).name
                self._results.put(FileResult(name, None, why, cancelled=True))


def as_audio_file(item: Any, names: OutputNames, root: Path | None) -> AudioFile:
    if isinstance(item, AudioFile):
        return item
    path = Path(item)
    relative = PurePath(path.name)
    if root is not None and path.is_relative_to(root):
        relative = path.relative_to(root)
    return AudioFile(str(path), printable(relative), names.claim(relative).stem)


def reason_of(error: BaseException | str) -> str:
    """One line that says why, out of a traceback or an exception."""
    if isinstance(error, AllWorkersFailed) and error.failures:
        return f"no worker could start: {_raised(error.failures[0][1])}"
    exception = error.exception if isinstance(error, ErrorReport) else error
    if isinstance(exception, BaseException):
        return (str(exception).strip() or type(exception).__name__).splitlines()[0]
    return _raised(str(error))


def _raised(text: str) -> str:
    """Of a traceback, the message of the exception; of any other text, its first line."""
    lines = [line for line in text.splitlines() if line.strip()]
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    after = [line for line in lines[frames[-1] + 1 :] if not line.startswith(" ")] if frames else lines[:1]
    line = (after or lines or ["no reason was given"])[0].strip()
    return re.sub(r"^[\w.]*\.(\w+): ", r"\1: ", line).removeprefix("EngineError: ")
