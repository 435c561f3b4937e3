"""Transcribe a folder of audio on several GPUs.

    python examples/launcher_multigpu.py --input-dir data/audio --gpus auto
    python examples/launcher_multigpu.py --input-dir data/audio --gpus 0,1,2 --model-size large-v3

All the work is done by gpu_dispatch.multigpu; this is its command line and the two functions that scripts import.
``gpu-dispatch transcribe`` has more options.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from gpu_dispatch.multigpu import GPUDetector, LauncherOrchestrator


def get_available_gpus() -> list[int | str]:
    return GPUDetector().get_available_gpus()


def run_multi_gpu(
    input_dir: Path | str,
    output_dir: Path | str,
    gpus: Sequence[int | str] | str,
    model_size: str = "base",
    language: str | None = None,
    pattern: str = "*.wav",
) -> int:
    """Transcribe every file of ``input_dir`` that matches; returns an exit code: 0, 1 on failures, 130 on Ctrl-C."""
    return LauncherOrchestrator().run(input_dir, output_dir, gpus, model_size, language, pattern)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Transcribe a folder of audio on several GPUs.")
    parser.add_argument("--input-dir", type=Path, required=True, help="the folder with the audio")
    parser.add_argument("--output-dir", type=Path, default=Path("data/outputs"), help="default: data/outputs")
    parser.add_argument("--gpus", default="auto", help="auto (default), 0,1,2, or cpu:2 for workers without a GPU")
    parser.add_argument("--model-size", default="base", help="a size, a folder, or a name on the hub (default: base)")
    parser.add_argument("--language", default=None, help="such as en; detected for each file if not given")
    parser.add_argument("--pattern", default="*.wav", help="which files (default: *.wav)")
    arguments = parser.parse_args(argv)
    return run_multi_gpu(
        arguments.input_dir,
        arguments.output_dir,
        arguments.gpus,
        arguments.model_size,
        arguments.language,
        arguments.pattern,
    )


if __name__ == "__main__":
    raise SystemExit(main())
