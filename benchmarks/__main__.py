"""The command line: ``python -m benchmarks``, from the project's root."""

from __future__ import annotations

import argparse
import compileall
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import benchmarks
import gpu_dispatch
from benchmarks import bars, machine, plot, publish, table
from benchmarks.loads import BY_NAME, LOADS, Load
from benchmarks.rounds import measure_all
from benchmarks.samples import Sample, failures, medians
from benchmarks.systems import BY_NAME as SYSTEM


def main() -> int:
    args = parse(sys.argv[1:])
    if args.render:
        return report(json.loads(Path(args.render).read_text(encoding="utf-8")), args)
    missing = [s.name for s in SYSTEM.values() if not s.installed()]
    if missing:
        print(f"not installed, left out: {', '.join(missing)}", file=sys.stderr)
    wanted = args.systems or [s.name for s in SYSTEM.values() if not s.on_request]

    def systems_of(load: Load) -> list[str]:
        return [name for name in load.systems if name in wanted and name not in missing]

    compile_as_pip_does()
    described = machine.describe()
    samples = []
    began = time.monotonic()
    for sample in measure_all([BY_NAME[name] for name in args.loads], systems_of, args.rounds, args.scale):
        samples.append(sample)
        print(f"{time.monotonic() - began:6.0f} s  {line(sample)}", file=sys.stderr, flush=True)
    run = {
        "machine": described,
        "rounds": args.rounds,
        "scale": args.scale,
        "samples": [sample.as_dict() for sample in samples],
    }
    return report(run, args)


def compile_as_pip_does() -> None:
    """A library that was installed has its bytecode beside it, as those of our peers have. One that is run from its
    source tree has not, where Python is told to write none; then every new worker compiles it again."""
    for package in (gpu_dispatch, benchmarks):
        for folder in package.__path__:
            compileall.compile_dir(folder, quiet=1)


def report(run: dict[str, Any], args: argparse.Namespace) -> int:
    """Write results.json, results.md and results.svg; the exit status says whether every measured bar was kept."""
    samples = [Sample(**s) for s in run["samples"]]
    measured = medians(samples)
    text = table.markdown(measured, failures(samples), run["machine"], run["rounds"])
    picture = plot.svg(measured)
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    (out / "results.md").write_text(text, encoding="utf-8")
    (out / "results.svg").write_text(picture, encoding="utf-8")
    if args.publish:
        publish.into_page(Path(args.publish), text, picture)
    print(text)
    return 0 if all(verdict.kept is not False for verdict in bars.verdicts(measured)) else 1


def line(sample: Sample) -> str:
    what = f"{sample.load:15} {sample.system:19} round {sample.round}"
    if sample.value is None:
        return f"{what}  failed: {sample.error}"
    return f"{what}  {table.short(sample.value)} {BY_NAME[sample.load].figure.value}"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure gpu_dispatch beside its peers.")
    parser.add_argument("--loads", type=_names(set(BY_NAME)), default=[load.name for load in LOADS], metavar="A,B")
    parser.add_argument(
        "--systems", type=_names(set(SYSTEM)), default=[], metavar="A,B", help="default: all but loky and Ray's"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="length of each measurement; 0.1 for a quick look")
    parser.add_argument("--out", default="out/bench", help="folder for results.json, results.md and results.svg")
    parser.add_argument("--publish", metavar="PAGE", help="also put the tables and the plot into this Markdown page")
    parser.add_argument("--render", metavar="JSON", help="measure nothing: render an earlier results.json again")
    return parser.parse_args(arguments)


def _names(known: set[str]) -> Callable[[str], list[str]]:
    def split(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = sorted(set(names) - known)
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
        return names

    return split


if __name__ == "__main__":
    sys.exit(main())
