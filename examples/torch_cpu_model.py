"""A torch model with loading, batches and saving side by side. Runs on the CPU, and on GPUs without a change.

    pip install gpu-dispatch torch numpy
    python examples/torch_cpu_model.py --images 2000

Loading (``preprocess``) and saving (``postprocess``) run on threads beside the model, which gets as many images at
once as pay off: the size of the batches is found by trying, and memory that runs out costs no image.
"""

from __future__ import annotations

import argparse
from typing import Any

from gpu_dispatch import BaseWorker, Dispatcher


class ImageClassifier(BaseWorker):
    def setup(self, gpu_id: int, seed: int, classes: int = 10) -> None:
        import torch

        torch.manual_seed(42)  # the same weights in every worker: a real one would load them
        self.torch = torch
        self.model = (
            torch.nn.Sequential(
                torch.nn.Conv2d(3, 16, 3, stride=2),
                torch.nn.ReLU(),
                torch.nn.AdaptiveAvgPool2d(4),
                torch.nn.Flatten(),
                torch.nn.Linear(16 * 16, classes),
            )
            .eval()
            .to(self.device)
        )

    def preprocess(self, number: int) -> Any:
        """On a thread: read and decode. Here a picture is made up from its number."""
        picture = self.torch.rand(3, 64, 64, generator=self.torch.Generator().manual_seed(number))
        picture[number % 3] += number % 5  # some are reddish, some greenish, some dark
        return picture

    def process_batch(self, images: list[Any]) -> Any:
        """On the device: as many pictures as fit. One row of the result belongs to each."""
        with self.torch.inference_mode():
            return self.model(self.torch.stack(images).to(self.device)).softmax(dim=1)

    def postprocess(self, scores: Any) -> dict[str, Any]:
        """On a thread: fetch from the device, and save."""
        best = int(scores.argmax())
        return {"label": best, "score": float(scores[best]), "scores": scores}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--gpus", default="cpu:2", help='"auto" for all GPUs')
    arguments = parser.parse_args()
    labels: dict[int, int] = {}

    def count(task_id: int, result: dict[str, Any], worker_id: int) -> None:
        labels[result["label"]] = labels.get(result["label"], 0) + 1

    stats = Dispatcher(ImageClassifier, arguments.gpus).run(range(arguments.images), on_success=count)
    sizes = {worker["batch_size"] for worker in stats["gpu_status"].values()}
    print(f"{stats['completed']} images, {stats['throughput']:.0f} a second, in batches of {sorted(map(str, sizes))}")
    print({label: labels[label] for label in sorted(labels)})


if __name__ == "__main__":
    main()
