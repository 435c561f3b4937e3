"""When the parent is killed, its workers and everything that they started are gone within a second."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from leaks import MARK_NAME
from scripts import start_script

SCRIPT = """
import os, subprocess, sys, time, warnings
from gpu_dispatch import BaseWorker, Dispatcher
from faulty_workers import FAULTS

class Busy(BaseWorker):
    def setup(self, gpu_id, seed, how):
        self.children = [subprocess.Popen(["sleep", "600"])]  # as data loaders are
        print("up", flush=True)
        if how == "setup":
            print("busy", flush=True)
            FAULTS["hang_gil"]()

    def process(self, how):
        print("busy", flush=True)
        if how == "idle":
            return how
        if how == "fork" and os.fork() == 0:
            time.sleep(600)
        FAULTS[how if how in FAULTS else "sleep"]()

def slowly(how):
    yield how
    yield how
    if how == "forked parent":
        warnings.simplefilter("ignore")  # of fork in a process with threads: people do it
        if os.fork() == 0:
            time.sleep(3)
            os._exit(0)
        os.write(1, b"forked\\n")  # not print: a thread passes on what workers print at the same time
    time.sleep(600)

if __name__ == "__main__":
    Dispatcher(Busy, [0, 1]).run(slowly("HOW"), lambda *_: None, how="HOW")
"""


def marked_processes() -> list[psutil.Process]:
    wanted = f"{MARK_NAME}={os.environ[MARK_NAME]}".encode()
    found = []
    for process in psutil.process_iter():
        try:
            if wanted in Path(f"/proc/{process.pid}/environ").read_bytes() and process.pid != os.getpid():
                found.append(process)
        except (OSError, psutil.NoSuchProcess):
            continue
    return found


@pytest.mark.parametrize("how", ["sleep", "idle", "hang_gil", "hang_deaf", "sigstop", "setup", "fork"])
def test_no_worker_and_no_grandchild_outlives_a_killed_parent(tmp_path: Path, how: str) -> None:
    script = start(tmp_path, how)
    wait_for(script, up=2, busy=2)
    while len(marked_processes()) < 5:  # the script, two workers, two grandchildren
        time.sleep(0.01)

    assert not alive_after_the_kill(script, 0)


def test_a_child_that_the_parent_forked_does_not_keep_the_workers_alive(tmp_path: Path) -> None:
    """It has copies of all of the parent's descriptors, the workers' lifelines among them."""
    script = start(tmp_path, "forked parent")
    wait_for(script, up=2, forked=1)

    alive = alive_after_the_kill(script, 1)

    assert len(alive) == 1  # the forked child itself: not ours to end
    alive[0].kill()


def start(folder: Path, how: str) -> subprocess.Popen[str]:
    return start_script(folder, SCRIPT.replace("HOW", how))


def wait_for(script: subprocess.Popen[str], **lines: int) -> None:
    """Until it has said each line so many times."""
    assert script.stdout is not None
    said: Counter[str] = Counter()
    while any(said[line] < count for line, count in lines.items()):
        text = script.stdout.readline()
        assert text, f"ended after saying {said}"
        said[text.strip()] += 1


def alive_after_the_kill(script: subprocess.Popen[str], expected: int) -> list[psutil.Process]:
    """Kill the parent; what is left a second later."""
    script.send_signal(signal.SIGKILL)
    script.wait()
    deadline = time.monotonic() + 1.0
    while len(alive := marked_processes()) > expected and time.monotonic() < deadline:
        time.sleep(0.01)
    for stream in (script.stdout, script.stderr):
        assert stream is not None
        stream.close()
    return alive
