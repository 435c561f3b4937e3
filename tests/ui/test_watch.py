"""Whatever happens to a view, the run is not disturbed."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest
from snapshots import snapshot

from gpu_dispatch.errors import UsageError
from gpu_dispatch.ui.watch import Watch


class RecordingView:
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.threads: set[int] = set()
        self.shown = threading.Event()

    def open(self) -> None:
        self.calls.append(("open", None))

    def show(self, stats: Mapping[str, Any]) -> None:
        self.calls.append(("show", stats["completed"]))
        self.threads.add(threading.get_ident())
        self.shown.set()

    def close(self, stats: Mapping[str, Any] | None) -> None:
        self.calls.append(("close", stats and stats["completed"]))


def test_a_view_is_opened_shown_and_closed_with_the_last_word() -> None:
    view, done = RecordingView(), [0]
    with Watch(view, lambda: snapshot(completed=done[0]), refresh_rate=1000):
        assert view.shown.wait(5)
        done[0] = 7
    assert view.calls[0] == ("open", None)
    assert view.calls[1] == ("show", 0)
    assert view.calls[-1] == ("close", 7)
    assert view.threads == view.threads - {threading.get_ident()}


def test_a_run_that_never_began_is_not_shown() -> None:
    view = RecordingView()
    with pytest.raises(ValueError), Watch(view, lambda: None, refresh_rate=1000):
        raise ValueError
    assert view.calls == [("open", None), ("close", None)]


def test_the_terminal_is_given_back_when_the_run_raises() -> None:
    view = RecordingView()
    with pytest.raises(KeyboardInterrupt), Watch(view, snapshot):
        raise KeyboardInterrupt
    assert view.calls[-1] == ("close", 6120)


@pytest.mark.parametrize("step", ["open", "show"])
def test_a_view_that_raises_is_dropped_with_one_warning(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    view = RecordingView()

    def fail(*_: Any) -> None:
        view.shown.set()
        raise RuntimeError("no screen")

    monkeypatch.setattr(view, step, fail)

    def run() -> None:
        with Watch(view, snapshot, refresh_rate=1000):
            assert view.shown.wait(5)

    with pytest.warns(RuntimeWarning, match="dropped, the run goes on: RuntimeError: no screen") as caught:
        run()
    assert len(caught) == 1
    assert [call for call in view.calls if call[0] == "close"] == [("close", None)]


def test_statistics_that_raise_drop_the_view_too() -> None:
    view = RecordingView()
    with pytest.warns(RuntimeWarning, match="KeyError"), Watch(view, lambda: {}["x"]):
        pass
    assert view.calls[-1] == ("close", None)


def test_a_view_that_fails_at_the_end_does_not_replace_the_runs_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    view = RecordingView()
    monkeypatch.setattr(view, "close", lambda stats: 1 / 0)

    def run() -> None:
        with Watch(view, snapshot):
            raise OSError("the run's")

    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"), pytest.raises(OSError, match="the run's"):
        run()


def test_a_warning_that_is_an_error_stays_outside_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    view = RecordingView()  # pytest turns warnings into errors here
    monkeypatch.setattr(view, "open", lambda: 1 / 0)
    with Watch(view, snapshot):
        pass


def test_a_terminal_that_does_not_read_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_dispatch.ui.watch._STUCK_AFTER_S", 0.05)
    view, release = RecordingView(), threading.Event()

    def stuck(stats: Mapping[str, Any]) -> None:
        view.shown.set()
        release.wait(30)

    monkeypatch.setattr(view, "show", stuck)
    with Watch(view, snapshot) as watch:
        view.shown.wait(5)
        thread = watch._thread
        begun = time.monotonic()
    assert time.monotonic() - begun < 5
    release.set()
    assert thread is not None
    thread.join(5)


def test_an_expensive_view_is_shown_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    watch = Watch(RecordingView(), snapshot, refresh_rate=1000)
    spent = iter([0.0, 0.5])
    monkeypatch.setattr("gpu_dispatch.ui.watch.time.thread_time", lambda: next(spent))
    monkeypatch.setattr(watch._ended, "wait", lambda seconds: waits.append(seconds) or True)
    watch._keep_showing()
    assert waits == [10.0]


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "4", None, True])
def test_a_refresh_rate_that_is_not_positive_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="refresh_rate"):
        Watch(RecordingView(), snapshot, refresh_rate=wrong)
    with pytest.raises(ValueError):
        Watch(RecordingView(), snapshot, refresh_rate=wrong)
