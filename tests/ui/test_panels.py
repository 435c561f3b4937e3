"""The panels as text, at fixed sizes. ``UPDATE_GOLDEN=1 pytest tests/ui/test_panels.py`` rewrites the golden files."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from snapshots import many_workers, snapshot, worker

from gpu_dispatch.ui.cells import Block, Palette, fit, fit_line, flow
from gpu_dispatch.ui.panels.bars import bars
from gpu_dispatch.ui.panels.errors import errors
from gpu_dispatch.ui.panels.gpu_table import gpu_table
from gpu_dispatch.ui.panels.layout import dashboard, share_height
from gpu_dispatch.ui.panels.output import output
from gpu_dispatch.ui.panels.overall import overall
from gpu_dispatch.ui.panels.summary import summary

GOLDEN = Path(__file__).with_name("golden")

STARTING = snapshot(
    state="starting",
    total=0,
    completed=0,
    failed=0,
    timeouts=0,
    crashed=0,
    retries=0,
    restarts=0,
    elapsed_s=12.4,
    throughput=0.0,
    throughput_recent=0.0,
    throughput_history=[0] * 12,
    eta_s=None,
    errors=[],
    gpu_status={
        0: worker(0, status="idle", current_task=None, current_age_s=None, completed=0, failed=0, timeouts=0,
                  busy_share=0.0, last_duration=None, median_duration=None, setup_s=3.1),
        1: worker(1, status="initializing", current_task=None, current_age_s=None, completed=0, failed=0, timeouts=0,
                  busy_share=0.0, last_duration=None, median_duration=None, setup_s=None, status_age_s=12.4),
    },
)  # fmt: skip
ON_DEVICES = snapshot(
    devices={i: {"utilisation": 0.9, "memory_used": 61 * 2**30, "memory_total": 80 * 2**30} for i in range(4)},
    gpu_status={i: worker(i, batch_size=64) for i in range(4)},
)
FINISHED = snapshot(
    state="finished",
    total=10_000,
    pending=0,
    completed=9_980,
    failed=15,
    timeouts=5,
    queue_depth=0,
    in_flight=0,
    elapsed_s=137.0,
    gpu_status={i: worker(i, status="finished", current_task=None, current_age_s=None, restarts=i) for i in range(4)},
    log_dir="logs/run-1",
)
CASES: dict[str, Block] = {
    "dashboard_80x24": dashboard(snapshot(), 80, 24),
    "dashboard_120x40": dashboard(snapshot(), 120, 40),
    "dashboard_200x60": dashboard(snapshot(), 200, 60),
    "dashboard_20x24": dashboard(snapshot(), 20, 24),
    "dashboard_64_gpus_80x24": dashboard(snapshot(gpu_status=many_workers(64)), 80, 24),
    "dashboard_starting_80x24": dashboard(STARTING, 80, 24),
    "dashboard_devices_120x24": dashboard(ON_DEVICES, 120, 24),
    "dashboard_unknown_length_80x24": dashboard(snapshot(expected_total=None, eta_s=None), 80, 24),
    "summary_100": summary(FINISHED, 100),
    "summary_plain_80": summary(FINISHED, 80, frames=False),
    "bars_80": bars(snapshot(), 80, 10),
}


@pytest.mark.parametrize("name", CASES)
def test_panels_look_as_agreed(name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    text = CASES[name].text() + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


SNAPSHOTS = {
    "usual": snapshot(),
    "64 GPUs": snapshot(gpu_status=many_workers(64)),
    "starting": STARTING,
    "devices": ON_DEVICES,
    "finished": FINISHED,
    "nothing known": {},
    "huge numbers": snapshot(
        workers=8, completed=10**12, failed=10**9, expected_total=10**13, throughput=9.9e6, elapsed_s=10**7,
        eta_s=(1e7, 2e7, 3e8), rss_bytes=10**13,
        gpu_status={i: worker(i, completed=10**11, current_task=10**12, failed=10**7) for i in range(8)},
    ),
    "foreign text": snapshot(
        errors=[{"cause": "日本語エラー" * 30 + "\x1b[2J", "count": 3, "last_task": 1, "example": ""}] * 30,
        output=[(0, "x" * 5000), (1, "\x1b]0;title\x07évil\r\n"), (2, "[bold]界[/]" * 40), (9, "who?")] * 20,
        gpu_status={0: worker(0, gpu_id="GPU-6f0c9a2e-8a31-4a66-8c0e-000000000000", status="error", error="界" * 90)},
    ),
}  # fmt: skip
SIZES = [(80, 24), (120, 40), (200, 60), (20, 24), (20, 5), (40, 16), (39, 15), (100, 16), (3, 3), (1, 1), (80, 1)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", SNAPSHOTS)
def test_no_line_is_longer_than_the_width_and_no_frame_taller_than_the_height(name: str, size: tuple[int, int]) -> None:
    width, height = size
    for block in (dashboard(SNAPSHOTS[name], width, height), bars(SNAPSHOTS[name], width, height)):
        assert 1 <= len(block.lines) <= height
        assert {sum(cell_len(text) for text, _ in line) for line in block.lines} == {width}
    logs = "worker logs: "
    assert all(
        cell_len(line) <= width or line.startswith(logs) for line in summary(SNAPSHOTS[name], width).text().split("\n")
    )


@settings(max_examples=200, deadline=None)
@given(
    height=st.integers(1, 70), border=st.sampled_from([1, 2]), overall_lines=st.integers(1, 12),
    gpus=st.integers(0, 200), error_groups=st.integers(0, 20), output_lines=st.integers(0, 50),
)  # fmt: skip
def test_shares_never_exceed_the_height(
    height: int, border: int, overall_lines: int, gpus: int, error_groups: int, output_lines: int
) -> None:
    shares = share_height(
        height, border, overall=overall_lines, gpus=gpus, errors=error_groups, output=output_lines
    )  # fmt: skip
    used = [share for share in (shares.overall, shares.gpus, shares.errors, shares.output) if share]
    assert shares.overall >= 1
    assert sum(used) + border * len(used) <= max(height, border + 1)
    assert shares.gpus <= gpus + 1
    assert shares.gpus != 1, "a header without rows"


def texts(lines: list[Any]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def test_the_troubled_and_the_nearly_late_come_first_when_not_all_gpus_fit() -> None:
    rows = texts(gpu_table(snapshot(gpu_status=many_workers(64)), 76, 6))
    assert [row.split()[0] for row in rows] == ["GPU", "32", "63", "62", "4", "9", "…"]
    assert rows[-1].strip() == "… 59 more: 58 processing, 1 idle"


def test_gpus_keep_their_order_when_all_fit() -> None:
    rows = texts(gpu_table(snapshot(gpu_status=many_workers(8)), 76, 8))
    assert [row.split()[0] for row in rows[1:]] == [str(i) for i in range(8)]


def test_several_workers_on_one_gpu_can_be_told_apart() -> None:
    rows = texts(gpu_table({"gpu_status": {3: worker(3, gpu_id=1)}}, 76, 8))
    assert rows[1].startswith("1#3 ")


def test_the_reason_why_a_worker_is_out_of_service_is_shown() -> None:
    ill = worker(0, status="out of service", error="Traceback (most recent call last):\n  x\nRuntimeError: GPU is lost")
    assert "RuntimeError: GPU is lost" in texts(gpu_table({"gpu_status": {0: ill}}, 140, 5))[1]


def test_every_status_has_its_colour() -> None:
    statuses = ["processing", "idle", "initializing", "finished", "error", "restarting", "out of service"]
    styles = set()
    for status in statuses:
        (cell,) = [
            c for c in gpu_table({"gpu_status": {0: worker(0, status=status)}}, 80, 1)[1] if c[0].strip() == status
        ]
        styles.add(cell[1])
        assert cell[1]
    assert len(styles) >= 6


def test_causes_that_do_not_fit_are_counted() -> None:
    groups = [{"cause": f"E{i}", "count": 10 - i, "last_task": i} for i in range(6)]
    assert texts(errors({"errors": groups}, 60, 3))[-1].strip() == "… 4 more causes, 26 cases"
    assert len(errors({"errors": groups}, 60, 6)) == 6
    assert errors({"errors": groups}, 60, 0) == []


def test_the_youngest_output_is_kept() -> None:
    lines = texts(output(snapshot(output=[(0, f"line {i}") for i in range(10)]), 30, 2))
    assert [line.strip() for line in lines] == ["0 line 8", "0 line 9"]


def test_the_overall_panel_has_everything_asked_for() -> None:
    text = "\n".join(texts(overall(snapshot(), 120)))
    for part in ("61%", "6,136/10,000", "done 6,120", "failed 12 (1 crashed)", "timed out 4", "76.0/s", "mean 73.5/s",
                 "▁▂▅▇██████", "ETA 0:00:51 (0:00:48–0:00:57)", "retries 2", "restarts 1", "queued 256", "in flight 8",
                 "memory 84 MB"):  # fmt: skip
        assert part in text


def test_rich_prints_a_block_without_taking_markup_for_markup() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="truecolor")
    console.print(dashboard(snapshot(output=[(0, "[red]literal[/red]")]), 80, 24))
    assert "[red]literal[/red]" in console.file.getvalue()  # type: ignore[attr-defined]


def test_html_is_escaped() -> None:
    assert "<script>" not in dashboard(snapshot(output=[(0, "<script>alert(1)</script>")]), 80, 24).html()


def test_without_colour_nothing_is_coloured_and_without_utf8_everything_is_ascii() -> None:
    def written(**kind: Any) -> str:
        console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="truecolor", **kind)
        return "".join(Palette.of(console).write(line) for line in dashboard(snapshot(), 80, 24).lines)

    assert "\x1b[1;31m" in written()
    assert not any(f"3{n}m" in written(no_color=True) for n in range(8))
    palette = Palette(None, ascii_only=True)
    lines = [palette.write(line) for line in dashboard(snapshot(output=[(0, "é界")]), 80, 24).lines]
    assert all(line.isascii() for line in lines)


@given(st.text(), st.integers(0, 30), st.booleans())
def test_fit_gives_exactly_the_width(text: str, width: int, right: bool) -> None:
    from gpu_dispatch.ui.sanitise import one_line

    assert cell_len(fit(one_line(text), width, right=right)) == width


@given(st.lists(st.text(alphabet="ab界é", max_size=12), max_size=12), st.integers(1, 30))
def test_flow_and_fit_line_give_exactly_the_width(words: list[str], width: int) -> None:
    cells = [(word, "") for word in words]
    assert sum(cell_len(text) for text, _ in fit_line(cells, width)) == width
    for line in flow([[cell] for cell in cells], width):
        assert sum(cell_len(text) for text, _ in line) == width
