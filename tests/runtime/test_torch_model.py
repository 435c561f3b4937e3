"""A torch model behind loading threads, in batches, its tensors back in the caller."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch
from recording import run
from scripts import run_script
from torch_cpu_model import ImageClassifier

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_model_in_batches_answers_like_the_model_alone() -> None:
    alone = ImageClassifier()
    alone.setup(0, 0)
    record = run(ImageClassifier, range(60), "cpu:2")
    record.check(60)
    for number in range(60):
        scores = alone.process_batch([alone.preprocess(number)])[0]
        got = record.successes[number]["scores"]
        assert torch.allclose(got, scores, atol=1e-5)
        got.zero_()


def test_the_example_runs() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "torch_cpu_model.py"), "--images", "60"],
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("60 images")


TENSORS_FROM_A_WORKER = """
    import sys
    from gpu_dispatch import BaseWorker, Dispatcher

    class MakesTensors(BaseWorker):
        def setup(self, gpu_id, seed):
            import torch
            self.torch = torch

        def process(self, size):
            return self.torch.full((size,), 2.0, dtype=self.torch.bfloat16)

    if __name__ == "__main__":
        assert "torch" not in sys.modules
        results = {}
        Dispatcher(MakesTensors, [0]).run([3, 100_000], lambda t, r, w: results.__setitem__(t, r), lambda *e: print(e))
        print([(str(r.dtype), r.numel(), float(r.float().mean())) for _, r in sorted(results.items())])
"""


def test_tensors_arrive_in_a_caller_that_has_not_imported_torch(tmp_path: Path) -> None:
    done = run_script(tmp_path, TENSORS_FROM_A_WORKER, timeout_s=120)
    assert done.stdout == "[('torch.bfloat16', 3, 2.0), ('torch.bfloat16', 100000, 2.0)]\n", done.stderr
