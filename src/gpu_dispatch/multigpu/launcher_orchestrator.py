"""The whole way: a folder in, transcripts out, an exit code.

    1 which GPUs   2 which files   3 which model   4 what is undone   5 workers   6 results as they come   7 summary

``run`` never raises: it prints one line and returns an exit code. ``launch`` is the same for programs: it raises
what is wrong with the arguments and returns figures.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_dispatch import devices
from gpu_dispatch.errors import AllWorkersFailed, GPUDispatchError, Terminated, UsageError
from gpu_dispatch.multigpu.gpu_detector import GPUDetector
from gpu_dispatch.multigpu.load_balancer import LoadBalancer
from gpu_dispatch.multigpu.process_spawner import ProcessSpawner, reason_of
from gpu_dispatch.multigpu.resource_allocator import ResourceAllocator
from gpu_dispatch.multigpu.workload import Workload, files_per_batch, plan_workload
from gpu_dispatch.transcription.engine import DEFAULT_ENGINE, find_engine, prepare_model
from gpu_dispatch.transcription.formats import DEFAULT_FORMATS, parse_formats
from gpu_dispatch.transcription.job import TranscriptionJob
from gpu_dispatch.transcription.outputs import sweep_parts
from gpu_dispatch.transcription.settings import TranscriptionSettings
from gpu_dispatch.transcription.worker import windows_per_call

Gpus = Sequence[int | str] | str
DRAIN_S = 3.0


@dataclass(frozen=True, slots=True)
class Launched:
    """How a launch ended."""

    exit_code: int
    """0 all done, 1 some files failed, 130 Ctrl-C, 143 SIGTERM."""
    stats: dict[str, Any]
    """See LoadBalancer.get_summary_stats()."""


@dataclass(frozen=True, slots=True)
class _Shown:
    progress: bool
    summary: bool


class LauncherOrchestrator:
    """The components can be replaced by your own."""

    def __init__(
        self,
        gpu_detector: GPUDetector | None = None,
        resource_allocator: ResourceAllocator | None = None,
        process_spawner: ProcessSpawner | None = None,
        load_balancer: Callable[[Sequence[int | str]], LoadBalancer] = LoadBalancer,
    ) -> None:
        self.gpu_detector = gpu_detector or GPUDetector()
        self.resource_allocator = resource_allocator or ResourceAllocator()
        self.process_spawner = process_spawner or ProcessSpawner()
        self._new_load_balancer = load_balancer

    def run(
        self,
        input_dir: Path | str,
        output_dir: Path | str,
        gpus: Gpus = "auto",
        model_size: str = "base",
        language: str | None = None,
        pattern: str | None = "*.wav",
        **options: Any,
    ) -> int:
        """Transcribe the folder, tell about it on stderr and stdout, and return the exit code.

        ``options`` are those of ``launch``.
        """
        try:
            return self.launch(input_dir, output_dir, gpus, model_size, language, pattern, **options).exit_code
        except (GPUDispatchError, OSError) as error:
            print(f"error: {reason_of(error)}", file=sys.stderr)
            return 1

    def launch(
        self,
        input_dir: Path | str,
        output_dir: Path | str,
        gpus: Gpus = "auto",
        model_size: str = "base",
        language: str | None = None,
        pattern: str | None = None,
        *,
        formats: Sequence[str] | str = DEFAULT_FORMATS,
        engine: str | type = DEFAULT_ENGINE,
        settings: TranscriptionSettings | None = None,
        overwrite: bool = False,
        checksum: bool = False,
        batch_size: int | None = None,
        cpu_threads: int = 0,
        drain_timeout: float = DRAIN_S,
        show_progress: bool = True,
        show_summary: bool = True,
        **dispatcher_options: Any,
    ) -> Launched:
        """``settings`` hold the language too; ``input_dir`` may be a single file. Progress goes to stderr, the summary
        to stdout. ``batch_size``: windows of up to 30 s per call of the model; 16 on a GPU, 12 on a CPU.

        ``dispatcher_options``: ``workers_per_gpu``, ``io_threads``, ``retries``, ``task_timeout``, ``log_dir`` …
        """
        spec = self.usable_gpus(gpus)
        root, files = self._files(Path(input_dir), pattern, Path(output_dir))
        found_engine = find_engine(engine)
        job = TranscriptionJob(
            engine=found_engine,
            model=prepare_model(found_engine, model_size),
            output_dir=os.path.abspath(output_dir),
            settings=settings or TranscriptionSettings(language=language),
            formats=parse_formats(formats),
            windows_per_call=batch_size,
            cpu_threads=cpu_threads,
        )
        _make_folder(Path(output_dir))
        sweep_parts(Path(output_dir))
        workload = plan_workload(files, root, job, overwrite=overwrite, checksum=checksum)
        shown = _Shown(show_progress, show_summary)
        return self._launch(spec, job, workload, drain_timeout, shown, dispatcher_options)

    def validate_setup(self, input_dir: Path | str, gpus: Gpus) -> tuple[bool, str | None]:
        """Whether ``run`` could begin with these; if not, why."""
        ok, error = self.resource_allocator.validate_input_dir(input_dir)
        if not ok:
            return ok, error
        try:
            self.usable_gpus(gpus, notice=False)
        except UsageError as problem:
            return False, str(problem)
        return True, None

    def get_workload_info(self, input_dir: Path | str, pattern: str | None = "*.wav") -> dict[str, Any]:
        """What ``ResourceAllocator.estimate_workload`` says of the folder's files, and the files."""
        files = self.resource_allocator.discover_files(input_dir, pattern)
        return {**self.resource_allocator.estimate_workload(files), "files": files}

    def get_gpu_info(self) -> list[dict[str, Any]]:
        """One dict per available GPU."""
        return [self.gpu_detector.get_gpu_info(gpu_id) for gpu_id in self.gpu_detector.get_available_gpus()]

    def cleanup(self) -> None:
        """End whatever is still running."""
        self.process_spawner.cleanup()

    def usable_gpus(self, gpus: Gpus, *, notice: bool = True) -> Gpus:
        """The specification to run with; raises UsageError when it asks for a GPU that is not here, but others are.

        On a machine without any GPU the work is done by the CPU, so that a script can be tried anywhere: one worker for
        ``"auto"``, as many as there are ids otherwise. That is said on stderr.
        """
        if isinstance(gpus, str) and gpus.strip().lower().startswith("cpu"):
            devices.resolve(gpus, os.environ)
            return gpus
        automatic = isinstance(gpus, str) and gpus.strip().lower() == "auto"
        if not devices.inventory(os.environ).devices:
            count = 1 if automatic else len(devices.resolve(gpus, os.environ))
            if notice:
                print(
                    f"no GPU was found on this machine: {count} worker{'s' * (count > 1)} on the CPU", file=sys.stderr
                )
            return "cpu:1" if automatic else gpus
        if not automatic:
            ids = self.gpu_detector.parse_gpu_list(gpus) if isinstance(gpus, str) else gpus
            ok, error = self.gpu_detector.validate_gpus(ids)
            if not ok:
                raise UsageError(error)
        return gpus

    # --- the run --------------------------------------------------------------------------------------------

    def _files(self, source: Path, pattern: str | None, output_dir: Path) -> tuple[Path, list[Path]]:
        if source.is_file():
            return source.parent, [source]
        files = self.resource_allocator.discover_files(source, pattern)
        inside = output_dir.resolve()
        if inside != source.resolve():  # an output folder inside the input folder is not input
            files = [path for path in files if not path.resolve().is_relative_to(inside)]
        if not files:
            wanted = f"matches {pattern!r}" if pattern is not None else "is audio or video"
            raise UsageError(f"no file in {source} {wanted}")
        return source, files

    def _launch(
        self,
        spec: Gpus,
        job: TranscriptionJob,
        workload: Workload,
        drain_s: float,
        shown: _Shown,
        options: dict[str, Any],
    ) -> Launched:
        total = len(workload.todo)
        balancer = self._new_load_balancer([])
        if not total:
            return self._conclude(balancer, workload, 0, shown)
        grants = devices.resolve(spec, os.environ, workers_per_gpu=options.get("workers_per_gpu", 1))
        windows = job.windows_per_call or windows_per_call(grant.device for grant in grants)
        options.setdefault("batch_size", files_per_batch(workload.todo, len(grants), windows))
        tasks = self.resource_allocator.create_task_queue(workload.todo, 1)
        results = self.resource_allocator.create_result_queue()
        spawner = self.process_spawner
        with _sigterm_raises():
            try:
                handles = spawner.spawn_workers(spec, tasks, results, job=job, **options)
                balancer = self._new_load_balancer(list(dict.fromkeys(handle.gpu_id for handle in handles)))
                balancer.monitor_progress(results, total, balancer.print_progress if shown.progress else None)
                spawner.wait_for_completion()
            except KeyboardInterrupt as interrupt:  # Terminated is one too
                self._wind_up(drain_s)
                balancer.count_rest(results)
                return self._conclude(balancer, workload, 143 if isinstance(interrupt, Terminated) else 130, shown)
        if spawner.error is not None and not balancer.get_summary_stats()["completed"]:
            if isinstance(spawner.error, AllWorkersFailed):  # its own message is every worker's traceback
                raise AllWorkersFailed(reason_of(spawner.error), spawner.error.failures) from spawner.error
            raise spawner.error
        if spawner.error is not None:
            print(f"ended early: {reason_of(spawner.error)}", file=sys.stderr)
        return self._conclude(balancer, workload, balancer.get_exit_code(), shown)

    def _wind_up(self, drain_s: float) -> None:
        """After a first Ctrl-C: what is being transcribed may finish; a second one ends it at once."""
        spawner = self.process_spawner
        try:
            print(f"\nending: files being transcribed have {drain_s:g} s; once more ends at once", file=sys.stderr)
            spawner.terminate_all(drain_s)
            spawner.wait_for_completion()
        except KeyboardInterrupt:
            spawner.terminate_all(0.0)
            spawner.wait_for_completion()

    def _conclude(self, balancer: LoadBalancer, workload: Workload, code: int, shown: _Shown) -> Launched:
        balancer.skipped = len(workload.done)
        if shown.summary:
            balancer.print_summary(len(workload.todo))
        if code in (130, 143):
            print("run it again to go on: what is done is not done twice", file=sys.stderr)
        return Launched(code, balancer.get_summary_stats())


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the output folder {path} cannot be made: {error.strerror}") from error


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """SIGTERM as an exception, like Ctrl-C, while workers are running; only the main thread can have that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    if before is None or before is signal.SIG_IGN:
        yield
        return

    def terminate(_signum: int, _frame: Any) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
