"""Real workers: the environment is right at the first line of the user's module, before any import of theirs.

The module below records what it sees while it is being imported; the worker hands the record back.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from gpu_dispatch import Dispatcher
from gpu_dispatch.devices import cores

USER_MODULE = """
import os
SEEN = dict(os.environ)  # the first line: whatever is set later is too late for a framework imported here
CPUS = sorted(os.sched_getaffinity(0))

import json, time
from gpu_dispatch import BaseWorker

class Recorder(BaseWorker):
    def setup(self, gpu_id, seed, folder):
        self.folder = folder
        with open(f"{folder}/{self.worker_id}.new", "w") as file:
            json.dump({"gpu_id": gpu_id, "device": self.device, "env": SEEN, "cpus": CPUS}, file)
        os.rename(file.name, f"{folder}/{self.worker_id}.json")

    def process(self, workers):
        while sum(name.endswith(".json") for name in os.listdir(self.folder)) < workers:
            time.sleep(0.005)  # the run must not end before every worker has been set up
"""

SCRIPT = """
import json, pathlib, sys
from gpu_dispatch import Dispatcher
from user_module import Recorder

if __name__ == "__main__":
    folder, settings = sys.argv[1], json.loads(sys.argv[2])
    dispatcher = Dispatcher(Recorder, settings.pop("gpu_ids"), **settings)
    stats = dispatcher.run([len(dispatcher.worker_ids)], lambda *_: None, folder=folder, task_timeout=30)
    assert stats["completed"] == 1, stats
    print(json.dumps([json.loads(pathlib.Path(folder, f"{i}.json").read_text()) for i in dispatcher.worker_ids]))
"""

MASK = "CUDA_VISIBLE_DEVICES"


@pytest.fixture
def run_workers(fake_nvml, tmp_path):
    """Runs a user's script on the made-up machine; returns what each worker saw at import."""
    (tmp_path / "user_module.py").write_text(USER_MODULE)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    records = tmp_path / "records"
    records.mkdir()

    def run(gpu_ids, environ=None, **settings):
        inherited = {name: value for name, value in fake_nvml.env().items() if not name.endswith("_THREADS")}
        done = subprocess.run(
            [sys.executable, str(script), str(records), json.dumps({"gpu_ids": gpu_ids, **settings})],
            env={**inherited, **(environ or {})},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def masks(records):
    return [(record["gpu_id"], record["env"][MASK], record["device"]) for record in records]


def test_numbers(run_workers):
    records = run_workers([0, 2])
    assert masks(records) == [(0, "0", "cuda:0"), (2, "2", "cuda:0")]
    assert {record["env"]["CUDA_DEVICE_ORDER"] for record in records} == {"PCI_BUS_ID"}


def test_uuids(run_workers, nvml_support):
    assert masks(run_workers(["GPU-a003", nvml_support.gpu_uuid(1)])) == [
        ("GPU-a003", nvml_support.gpu_uuid(3), "cuda:0"),
        (nvml_support.gpu_uuid(1), nvml_support.gpu_uuid(1), "cuda:0"),
    ]


def test_mig_instances(run_workers, fake_nvml, nvml_support):
    fake_nvml.split(1, 2)
    one, two = nvml_support.mig_uuid(1, 0), nvml_support.mig_uuid(1, 1)
    assert masks(run_workers(f"{one},{two}")) == [(one, one, "cuda:0"), (two, two, "cuda:0")]


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("3,1", ["3", "1"]), ("{gpu2},{gpu0}", ["{gpu2}", "{gpu0}"]), ("{gpu1},2,2,9", ["{gpu1}", "2"])],
)
def test_numbers_count_within_a_mask_that_was_set_outside(run_workers, nvml_support, outer, inner):
    names = {f"gpu{i}": nvml_support.gpu_uuid(i) for i in range(4)}
    expected = [(i, mask.format(**names), "cuda:0") for i, mask in enumerate(inner)]
    assert masks(run_workers([0, 1], {MASK: outer.format(**names)})) == expected


def test_mig_instances_in_a_mask_that_was_set_outside(run_workers, fake_nvml, nvml_support):
    fake_nvml.split(0, 2)
    one, two = nvml_support.mig_uuid(0, 0), nvml_support.mig_uuid(0, 1)
    assert masks(run_workers("auto", {MASK: f"{two},{one}"})) == [(0, two, "cuda:0"), (1, one, "cuda:0")]


def test_two_gpus_per_worker(run_workers):
    assert masks(run_workers([0, 1, 2, 3], gpus_per_worker=2)) == [(0, "0,1", "cuda:0"), (2, "2,3", "cuda:0")]


def test_cpu_workers_see_no_gpu(run_workers):
    assert masks(run_workers("cpu:2")) == [(0, "", "cpu"), (1, "", "cpu")]


def test_thread_caps_are_there_and_those_of_the_user_stay(run_workers):
    records = run_workers([0, 1], {"MKL_NUM_THREADS": "11", "PYTHONHASHSEED": "7"})
    for record in records:
        assert record["env"]["MKL_NUM_THREADS"] == "11"
        assert int(record["env"]["OMP_NUM_THREADS"]) >= 1
        assert record["env"]["OPENBLAS_NUM_THREADS"] == record["env"]["OMP_NUM_THREADS"]
        assert record["env"]["PYTHONHASHSEED"] == "7"  # untouched


def test_without_isolation_the_workers_see_what_the_parent_sees(run_workers):
    (record,) = run_workers([1], {MASK: "3,2"}, isolate=False)
    assert (record["env"][MASK], record["device"]) == ("3,2", "cuda:1")


def test_a_worker_is_on_the_cores_next_to_its_gpu_before_the_users_module_is_imported(fake_nvml, tmp_path, monkeypatch):
    nearest = frozenset([min(os.sched_getaffinity(0))])
    monkeypatch.setattr(cores, "near", lambda devices, root: nearest)  # this machine's sysfs knows no fake GPU
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "user_module_with_cores.py").write_text(USER_MODULE)
    from user_module_with_cores import Recorder

    records = tmp_path / "records"
    records.mkdir()
    Dispatcher(Recorder, [3]).run([1], lambda *_: None, folder=str(records))
    assert json.loads((records / "3.json").read_text())["cpus"] == sorted(nearest)
