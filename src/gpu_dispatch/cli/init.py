"""``gpu-dispatch init``: a commented worker to start from. The workers themselves are in templates/."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from importlib import resources
from typing import Any

from gpu_dispatch.errors import UsageError

STDOUT = "-"


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    """On the command line."""
    file: str
    target: str
    """The class or function in it."""
    text: str
    needs: str
    """What ``pip install`` brings; empty when it runs on a bare Python."""
    example: str
    """An INPUT that suits it."""


KINDS = {
    kind.name: kind
    for kind in (
        Kind("function", "function.py", "process", "a plain function, called once per item", "", "items.txt"),
        Kind(
            "torch-image",
            "torch_image.py",
            "ImageWorker",
            "a PyTorch model over image files, in batches",
            "torch pillow numpy",
            "'photos/**/*.jpg'",
        ),
        Kind(
            "text-embedding",
            "text_embedding.py",
            "EmbeddingWorker",
            "a sentence-transformers model over texts, in batches",
            "sentence-transformers",
            "texts.txt",
        ),
        Kind(
            "whisper",
            "whisper.py",
            "WhisperWorker",
            "a faster-whisper model over audio files",
            "faster-whisper",
            "'audio/**/*.wav'",
        ),
        Kind("vllm", "vllm.py", "LLMWorker", "a vLLM model over prompts, in batches", "vllm", "prompts.txt"),
    )
}

_EXAMPLES = """\
examples:
  gpu-dispatch init worker.py                       # a plain function
  gpu-dispatch init worker.py --kind torch-image
  gpu-dispatch init - --kind vllm | less            # only look at it
"""


def add_parser(subparsers: Any) -> None:
    kinds = "".join(f"  {kind.name:<16}{kind.text}\n" for kind in KINDS.values())
    parser = subparsers.add_parser(
        "init",
        help="write a commented worker to start from",
        description="Write a commented worker that runs as it is; change it into yours.",
        epilog=f"kinds:\n{kinds}\n{_EXAMPLES}",
    )
    parser.add_argument("file", metavar="FILE", help="the file to write, ending in .py; - prints it")
    parser.add_argument("--kind", choices=list(KINDS), default="function", help="what it runs (default: function)")
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    parser.set_defaults(run=write_worker)


def write_worker(arguments: argparse.Namespace) -> int:
    kind = KINDS[arguments.kind]
    code = template(kind, os.path.basename(arguments.file))
    if arguments.file == STDOUT:
        sys.stdout.write(code)
        return 0
    _check_name(arguments.file)
    try:
        with open(arguments.file, "w" if arguments.overwrite else "x", encoding="utf-8") as file:
            file.write(code)
    except FileExistsError:
        raise UsageError(f"{arguments.file} exists already; give --overwrite, or another name") from None
    except OSError as error:
        raise UsageError(f"cannot write {arguments.file}: {error.strerror}") from error
    print(f"wrote {arguments.file}: {kind.text}")
    if kind.needs:
        print(f"needs:   pip install {kind.needs}")
    print(f"try it:  gpu-dispatch run {arguments.file}:{kind.target} {kind.example} -o out.jsonl")
    return 0


def template(kind: Kind, file_name: str) -> str:
    """The worker's code; the commands in its first lines call it by the name that it will have."""
    code = (resources.files("gpu_dispatch.cli") / "templates" / kind.file).read_text(encoding="utf-8")
    return code if file_name == STDOUT else code.replace("worker.py", file_name)


def _check_name(path: str) -> None:
    stem, suffix = os.path.splitext(os.path.basename(path))
    if suffix != ".py":
        raise UsageError(f"{path}: a worker is a Python file; end its name in .py")
    if not stem.isidentifier():
        raise UsageError(f"{path}: the workers import this file; use letters, digits and _ in its name")
    if stem in sys.stdlib_module_names or stem in ("gpu_dispatch", *_FRAMEWORKS):
        raise UsageError(f"{path}: a file of this name would hide the module {stem}; choose another")


# Modules that the templates import: a worker called torch.py would import itself.
_FRAMEWORKS = ("torch", "PIL", "numpy", "sentence_transformers", "faster_whisper", "vllm")
