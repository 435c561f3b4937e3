"""``gpu-dispatch transcribe INPUT -o OUT``: a folder of audio in, transcripts out, on every GPU."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from gpu_dispatch.cli.run_options import seconds, whole

_EXAMPLES = """\
examples:
  gpu-dispatch transcribe talks/ -o transcripts/ --model-size large-v3
  gpu-dispatch transcribe talks/ -o transcripts/ --gpus 0,1 --pattern '*.mp3' --formats srt,vtt
  gpu-dispatch transcribe talk.mp4 -o . --gpus cpu:2 --model-size base.en --word-timestamps

A second run skips what is done with the same settings; --overwrite does it again.

exit codes: 0 all done; 1 some files failed; 2 wrong command line; 130 Ctrl-C; 143 SIGTERM
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "transcribe",
        help="transcribe a folder of audio with Whisper",
        description="Transcribe a folder of audio or video with Whisper, on every GPU of this machine.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("input", metavar="INPUT", help="a folder (with all that is below it), or one file")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="the folder for the transcripts")
    _add_file_options(parser.add_argument_group("files"))
    _add_model_options(parser.add_argument_group("transcription"))
    _add_worker_options(parser.add_argument_group("workers"))
    parser.set_defaults(run=run, func=run)


def _add_file_options(group: Any) -> None:
    group.add_argument("--pattern", metavar="GLOB", help="such as '*.wav' or '*.mp3,*.m4a' (default: audio and video)")
    group.add_argument(
        "--formats", default="txt,srt", metavar="LIST", help="txt, srt, vtt, tsv, all (default txt,srt; json always)"
    )
    group.add_argument("--overwrite", action="store_true", help="transcribe again what is done")
    group.add_argument("--checksum", action="store_true", help="compare contents, not dates, to see what is done")
    group.add_argument("--allow-damaged", action="store_true", help="transcribe what is left of damaged files")
    group.add_argument("--json", action="store_true", help="end with a summary as JSON on stdout")
    group.add_argument("-q", "--quiet", action="store_true", help="no line per file, no summary")


def _add_model_options(group: Any) -> None:
    group.add_argument(
        "--model-size",
        "--model",
        default="base",
        metavar="NAME",
        help="tiny.en, base, large-v3 …; a folder; or a name on the hub (default base)",
    )
    group.add_argument("--language", metavar="CODE", help="such as en; without it, detected for each file")
    group.add_argument(
        "--task", choices=("transcribe", "translate"), default="transcribe", help="translate writes English"
    )
    group.add_argument("--word-timestamps", action="store_true", help="the time of each word, in the json")
    group.add_argument("--beam-size", type=whole(1), default=5, metavar="N", help="1 is fastest (default 5)")
    group.add_argument("--initial-prompt", metavar="TEXT", help="names and spellings to expect")
    group.add_argument("--no-vad", action="store_true", help="transcribe silence and noise, too")
    group.add_argument("--compute-type", default="auto", metavar="TYPE", help="default: float16 on GPU, int8 on CPU")
    group.add_argument("--engine", default="faster-whisper", metavar="SPEC", help="or your own: package.module:Class")


def _add_worker_options(group: Any) -> None:
    group.add_argument("--gpus", default="auto", metavar="SPEC", help="auto (default), 0,2-5, UUIDs, cpu:4")
    group.add_argument("--workers-per-gpu", type=whole(1), metavar="N", help="processes on each GPU (default 1)")
    group.add_argument(
        "--batch-size", type=whole(1), metavar="N", help="windows per call of the model (default 16; 12 on CPU)"
    )
    group.add_argument("--io-threads", type=whole(1), metavar="N", help="threads that decode, per worker (default 4)")
    group.add_argument("--cpu-threads", type=whole(1), metavar="N", help="threads of the model on a CPU")
    group.add_argument("--timeout", type=seconds, metavar="S", help="seconds for one file")
    group.add_argument("--retries", type=whole(0), metavar="N", help="tries after the first (default 0)")
    group.add_argument("--drain-timeout", type=seconds, metavar="S", help="seconds to finish after Ctrl-C (default 3)")
    group.add_argument("--log-dir", metavar="FOLDER", help="keep what each worker prints in a file of its own")


def run(arguments: argparse.Namespace) -> int:
    from gpu_dispatch.cli.target import importable_from
    from gpu_dispatch.multigpu import LauncherOrchestrator
    from gpu_dispatch.transcription import TranscriptionSettings

    importable_from(Path.cwd())  # for an engine that lies here
    settings = TranscriptionSettings(
        language=arguments.language,
        task=arguments.task,
        beam_size=arguments.beam_size,
        word_timestamps=arguments.word_timestamps,
        vad=not arguments.no_vad,
        initial_prompt=arguments.initial_prompt,
        compute_type=arguments.compute_type,
        allow_damaged=arguments.allow_damaged,
    )
    given = {
        "workers_per_gpu": arguments.workers_per_gpu,
        "io_threads": arguments.io_threads,
        "task_timeout": arguments.timeout,
        "retries": arguments.retries,
        "drain_timeout": arguments.drain_timeout,
        "log_dir": arguments.log_dir,
    }
    launched = LauncherOrchestrator().launch(
        arguments.input,
        arguments.output,
        arguments.gpus,
        arguments.model_size,
        pattern=arguments.pattern,
        settings=settings,
        formats=arguments.formats,
        engine=arguments.engine,
        overwrite=arguments.overwrite,
        checksum=arguments.checksum,
        batch_size=arguments.batch_size,
        cpu_threads=arguments.cpu_threads or 0,
        show_progress=not arguments.quiet,
        show_summary=not (arguments.quiet or arguments.json),
        **{name: value for name, value in given.items() if value is not None},
    )
    if arguments.json:
        print(json.dumps({"exit_code": launched.exit_code, **launched.stats}))
    return launched.exit_code
