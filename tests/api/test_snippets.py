"""The snippets that users start from, run as scripts: with a guard, without one, and without cloudpickle."""

from __future__ import annotations

from pathlib import Path

from scripts import run_script, without_cloudpickle

COMPLETE = """
from gpu_dispatch import BaseWorker, Dispatcher

import time

# --- 1. Define the Worker ---
class InferenceWorker(BaseWorker):
    def setup(self, gpu_id, seed, config_path):
        self.gpu_id = gpu_id
        print(f"[GPU {gpu_id}] Initializing with config: {config_path}")
        # Simulate heavy model loading
        time.sleep(1)
        
    def process(self, image_path):
        # Simulate inference
        # result = model(image_path)
        return f"Features from {image_path} via GPU {self.gpu_id}"

    def cleanup(self):
        print(f"[GPU {self.gpu_id}] Shutting down.")

# --- 2. Define Data Source ---
def path_generator():
    # This generator can yield millions of items without memory issues
    # thanks to the Dispatcher's backpressure mechanism.
    for i in range(1000):
        yield f"/data/img_{i:04d}.jpg"

# --- 3. Define Callbacks ---
def on_result(task_id, data, worker_id):
    if task_id % 100 == 0:
        print(f"Progress: {task_id} on GPU {worker_id} -> {data}")

def on_failure(task_id, error, worker_id):
    print(f"Task {task_id} Failed on GPU {worker_id}: {error}")

def on_timeout_handler(task_id, timeout, worker_id):
    print(f"Task {task_id} on GPU {worker_id} timed out after {timeout}s")

# --- 4. Run Pipeline ---
if __name__ == "__main__":
    # Configure the dispatcher
    dispatcher = Dispatcher(
        worker_cls=InferenceWorker,
        gpu_ids=[0, 1, 2, 3],
        queue_size=512
    )
    
    print("Starting Dispatcher...")
    
    try:
        # Start processing
        dispatcher.run(
            generator=path_generator(),
            on_success=on_result,
            on_error=on_failure,
            on_timeout=on_timeout_handler,
            task_timeout=30.0,  # 30 seconds per task
            # Arguments below are passed to setup()
            config_path="./configs/yolo_v8.yaml",
            base_seed=100
        )
    except KeyboardInterrupt:
        print("\\nStopped by user.")
"""  # noqa: W293 -- as users have it

QUICK_START_NAMES = """
dataset = range(25)
result = "a result"
"""

QUICK_START = """
from gpu_dispatch import BaseWorker, Dispatcher

class InferenceWorker(BaseWorker):
    def setup(self, gpu_id, seed, model_path):
        self.gpu_id = gpu_id
        # Load your model here

    def process(self, data):
        # Run inference
        return result

    def cleanup(self):
        # Release resources
        pass

def data_generator():
    for item in dataset:
        yield item

def on_success(task_id, result, worker_id):
    # Handle result
    pass

def on_exit():
    print("All workers drained!")

dispatcher = Dispatcher(
    worker_cls=InferenceWorker,
    gpu_ids=[0, 1, 2, 3],
    queue_size=512,
)

dispatcher.run(
    generator=data_generator(),
    on_success=on_success,
    on_exit=on_exit,
    model_path="./model.pth",
)
"""

DASHBOARD = """
from gpu_dispatch.ui import RichDispatcher

dispatcher = RichDispatcher(
    worker_cls=InferenceWorker,
    gpu_ids=[0, 1, 2, 3],
    refresh_rate=4.0,
)

stats = dispatcher.run(
    generator=data_generator(),
    on_success=on_success,
    model_path="./model.pth",
)

print(f"Completed {stats['completed']} tasks")
"""


def guarded(script: str) -> str:
    """The same script with everything from ``dispatcher = `` on under a guard."""
    head, _, tail = script.partition("\ndispatcher = ")
    return (
        head
        + '\nif __name__ == "__main__":\n'
        + "".join(f"    {line}\n" for line in ("dispatcher = " + tail).splitlines())
    )


def test_the_complete_example_runs_as_it_is(tmp_path: Path) -> None:
    done = run_script(tmp_path, COMPLETE)

    assert done.returncode == 0, done.stderr
    for gpu in range(4):
        assert f"[GPU {gpu}] Initializing with config: ./configs/yolo_v8.yaml" in done.stdout
        assert f"[GPU {gpu}] Shutting down." in done.stdout
    for task in range(0, 1000, 100):
        assert f"Progress: {task} on GPU " in done.stdout
        assert f"Features from /data/img_{task:04d}.jpg via GPU" in done.stdout
    assert "Failed" not in done.stdout
    assert done.stderr == ""


def test_the_complete_example_runs_without_cloudpickle(tmp_path: Path) -> None:
    done = run_script(tmp_path, COMPLETE, env=without_cloudpickle(tmp_path))

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Progress: ") == 10
    assert done.stdout.count("Starting Dispatcher...") == 1


def test_the_quick_start_runs_with_a_guard(tmp_path: Path) -> None:
    done = run_script(tmp_path, QUICK_START_NAMES + guarded(QUICK_START), env=without_cloudpickle(tmp_path))

    assert done.returncode == 0, done.stderr
    assert done.stdout == "All workers drained!\n"


def test_the_quick_start_runs_without_a_guard_when_cloudpickle_is_there(tmp_path: Path) -> None:
    done = run_script(tmp_path, QUICK_START_NAMES + "print('top level')\n" + QUICK_START)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "top level\nAll workers drained!\n"  # the workers did not run the script again


def test_without_a_guard_and_without_cloudpickle_there_is_one_clear_error(tmp_path: Path) -> None:
    done = run_script(tmp_path, QUICK_START_NAMES + QUICK_START, env=without_cloudpickle(tmp_path))

    assert done.returncode == 1
    assert "MainGuardError" in done.stderr
    assert 'if __name__ == "__main__":' in done.stderr
    assert "pip install cloudpickle" in done.stderr
    assert done.stderr.count("Traceback") == 1  # that of the parent; none per worker
    assert len(done.stderr.splitlines()) < 30
    assert done.stdout == "All workers drained!\n"  # on_exit, once, in the parent only


def test_the_dashboard_snippet_runs_without_a_guard(tmp_path: Path) -> None:
    done = run_script(tmp_path, QUICK_START_NAMES + QUICK_START + DASHBOARD)

    assert done.returncode == 0, done.stderr
    assert "Completed 25 tasks" in done.stdout


def test_a_module_started_with_dash_m_needs_no_cloudpickle(tmp_path: Path) -> None:
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "job.py").write_text(QUICK_START_NAMES + guarded(QUICK_START))
    driver = (
        "import runpy, sys; sys.argv = ['mine.job']; runpy.run_module('mine.job', run_name='__main__', alter_sys=True)"
    )

    done = run_script(tmp_path, driver, env=without_cloudpickle(tmp_path))

    assert done.returncode == 0, done.stderr
    assert done.stdout == "All workers drained!\n"


def test_a_class_inside_a_function_travels_with_cloudpickle_and_is_refused_without(tmp_path: Path) -> None:
    script = """
    from gpu_dispatch import BaseWorker, Dispatcher

    def main():
        factor = 3

        class Local(BaseWorker):
            def setup(self, gpu_id, seed): pass
            def process(self, item): return item * factor

        Dispatcher(Local, [0]).run([1, 2], lambda task_id, result, worker_id: print(task_id, result))

    if __name__ == "__main__":
        main()
    """
    with_it = run_script(tmp_path, script)
    without_it = run_script(tmp_path, script, env=without_cloudpickle(tmp_path))

    assert sorted(with_it.stdout.splitlines()) == ["0 3", "1 6"]
    assert without_it.returncode == 1
    assert "WorkerClassError" in without_it.stderr
    assert "pip install cloudpickle" in without_it.stderr
