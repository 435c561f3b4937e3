"""What kinds of files are in a folder? A small neural network (3 MB) in several workers, in batches.

    pip install gpu-dispatch magika
    python examples/classify_files_magika.py SOME_FOLDER --workers 2

The model runs on the CPU; with a model for the GPU, replace "cpu:2" by "auto".
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gpu_dispatch import BaseWorker, Dispatcher


class FileClassifier(BaseWorker):
    def setup(self, gpu_id: int, seed: int) -> None:
        from magika import Magika

        self.model = Magika()

    def process_batch(self, paths: list[str]) -> list[object]:
        """One call of the network for the whole batch; a file that cannot be read fails alone."""
        results = self.model.identify_paths([Path(path) for path in paths])
        return [
            result.output.label if result.ok else OSError(f"{path}: {result.status}")
            for path, result in zip(paths, results, strict=True)
        ]


def files_below(folder: str) -> Iterator[str]:
    """Read as the workers go, so a folder of any size will do."""
    for parent, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(parent, name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    kinds: Counter[str] = Counter()

    stats = Dispatcher(FileClassifier, f"cpu:{arguments.workers}").run(
        files_below(arguments.folder),
        on_success=lambda task_id, label, worker_id: kinds.update([label]),
        on_error=lambda task_id, error, worker_id: print(error.strip().splitlines()[-1]),
    )
    for label, count in kinds.most_common():
        print(f"{count:7} {label}")
    print(f"{stats['completed']} files in {stats['elapsed_s']:.1f} s, {stats['throughput']:.0f} a second")


if __name__ == "__main__":
    main()
