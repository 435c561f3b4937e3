"""In a notebook the dashboard renders in the cell: a real kernel, a worker class defined in the notebook."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CELL = """
import time
from gpu_dispatch import BaseWorker
from gpu_dispatch.ui import RichDispatcher

class Worker(BaseWorker):
    def setup(self, gpu_id, seed):
        time.sleep(0.3)
    def process(self, item):
        time.sleep(0.01)
        return item * 2

results = []
stats = RichDispatcher(Worker, [0, 1], refresh_rate=10).run(range(50), lambda t, r, w: results.append(r))
print(sorted(results) == [2 * i for i in range(50)], stats["completed"])
"""


# In a process of its own: the client keeps an event loop and its sockets until it exits.
CLIENT = """
import json, sys, nbformat
from nbclient import NotebookClient

notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(sys.stdin.read())])
NotebookClient(notebook, timeout=60).execute()
print(json.dumps(notebook.cells[0].outputs))
"""


def test_the_dashboard_is_one_output_that_is_updated_and_ends_as_the_summary(tmp_path: Path) -> None:
    client = subprocess.run(
        [sys.executable, "-c", CLIENT],
        input=CELL,
        capture_output=True,
        text=True,
        timeout=90,
        cwd=tmp_path,
        check=False,
    )
    assert client.returncode == 0, client.stderr
    outputs = json.loads(client.stdout)
    displays = [output["data"] for output in outputs if output["output_type"] == "display_data"]
    assert len(displays) == 1
    assert "gpu_dispatch: finished" in displays[0]["text/html"]
    assert "50 tasks:" in displays[0]["text/plain"]
    streams = [(output["name"], output["text"]) for output in outputs if output["output_type"] == "stream"]
    assert streams == [("stdout", "True 50\n")]
