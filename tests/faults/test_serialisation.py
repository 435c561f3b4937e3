"""What will not travel is one task's failure, with a word about what and where; everything else goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from recording import Record, run
from values_that_bite import MADE, PARENT, RUNG, Biter, Elsewhere, OpensNowhereElse, SecondTry, Unwilling

from gpu_dispatch import Dispatcher, ProgressEvent, TaskSuccess

RESULTS = [
    ("lock", "transport", ("lock", "cannot be pickled")),
    ("nested lock", "transport", ("['model'][1]['guard']", "lock")),
    ("generator", "transport", ("generator",)),
    ("opens not", "transport", ("does not unpickle in the parent", "ValueError: not here")),
    ("opens with exit", "transport", ("does not unpickle in the parent", "SystemExit")),
    ("opens mute", "transport", ("does not unpickle in the parent", "Mute")),
    ("own error", "error", ("WorkersOwn: ('with', 'arguments')",)),
    ("two arguments", "error", ("TwoArguments: first",)),
    ("holds a lock", "error", ("HoldsALock: held",)),
    ("own cause", "error", ("Recursive: round and round",)),
    ("surrogate", "error", ("ValueError: half a character",)),
    ("huge argument", "error", ("ValueError: b'xxx", "left out")),
]


def test_every_value_that_will_not_travel_costs_its_own_task_only(monkeypatch) -> None:
    monkeypatch.setenv(PARENT, str(os.getpid()))
    items = [item for name, _, _ in RESULTS for item in (name, "fine")]
    record = run(Biter, items, gpu_ids=[0])

    record.check(len(items))
    for number, (name, kind, needles) in enumerate(RESULTS):
        error = record.errors.pop(2 * number)
        assert error.kind == kind, name
        for needle in needles:
            assert needle in error, name
        assert len(error) < 100_000
        error.encode("utf-8", "surrogatepass")
    assert not record.errors
    assert record.stats["restarts"] == 0


@pytest.mark.parametrize("place", [0, 149, 299])
def test_a_result_that_does_not_open_is_told_the_same_way_to_all(place: int, monkeypatch) -> None:
    monkeypatch.setenv(PARENT, str(os.getpid()))
    items = ["opens not" if number == place else "fine" for number in range(300)]
    ends: dict[int, str] = {}

    record = run(Biter, items, gpu_ids=[0])
    watched = run(Biter, items, gpu_ids=[0], setup={"on_progress": lambda event: _note_end(event, ends)})
    outcomes = {outcome.task_id: outcome for outcome in Dispatcher(Biter, [0]).stream(items)}

    for each in (record, watched):
        each.check(300)
        assert {number: error.kind for number, error in each.errors.items()} == {place: "transport"}
        assert each.errors[place].details == {"task_id": place, "worker_id": 0, "attempt": 1}
        assert each.stats["failed"] == 1
    assert [number for number, end in ends.items() if end != "success"] == [place]
    assert len(outcomes) == 300
    assert [n for n, outcome in outcomes.items() if not isinstance(outcome, TaskSuccess)] == [place]
    assert "does not unpickle in the parent" in outcomes[place].error


def test_a_result_that_does_not_open_says_at_which_attempt_it_came(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv(PARENT, str(os.getpid()))
    record = run(SecondTry, ["opens not"], gpu_ids=[0], retries=1, setup={"folder": str(tmp_path)})

    record.check(1)
    assert (record.errors[0].kind, record.errors[0].attempt) == ("transport", 2)
    assert record.errors[0].details["attempt"] == 2


class Deadline(Exception):
    """Raised by a signal handler, as some do to limit the time of what they call."""


@pytest.fixture
def alarm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """SIGALRM raises Deadline; and this is the process in which values bite."""

    def ring(*_: object) -> None:
        raise Deadline

    monkeypatch.setenv(PARENT, str(os.getpid()))
    RUNG.clear()
    before = signal.signal(signal.SIGALRM, ring)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("backend", ["local", "inline"])
@pytest.mark.usefixtures("alarm")
def test_an_alarm_that_rings_while_a_result_is_opened_is_not_that_results_error(backend: str) -> None:
    record = Record()
    with pytest.raises(Deadline):
        run(Biter, ["fine", "opens with an alarm", "fine"], gpu_ids=[0], record=record, backend=backend)

    record.check(len(record.settled))
    assert isinstance(record.successes[1], OpensNowhereElse)
    assert {error.kind for error in record.errors.values()} <= {"cancelled"}


@pytest.mark.usefixtures("alarm")
def test_an_alarm_that_rings_whenever_it_likes_is_nobodys_error() -> None:
    record = Record()
    signal.setitimer(signal.ITIMER_REAL, 1.5)
    with pytest.raises(Deadline):
        run(Biter, ["opens late"] * 300, gpu_ids=[0], record=record)

    assert record.successes
    assert {error.kind for error in record.errors.values()} <= {"cancelled"}
    record.check(len(record.settled))


def _note_end(event: ProgressEvent, ends: dict[int, str]) -> None:
    if event.kind == "finished":
        ends[event.task_id] = event.outcome


def test_an_exception_that_can_travel_arrives_as_an_object_too() -> None:
    record = run(Biter, ["own error", "two arguments", "holds a lock"], gpu_ids=[0])

    own = record.errors[0].exception
    assert type(own).__name__ == "WorkersOwn"
    assert own.args == ("with", "arguments")
    assert record.errors[1].exception is None
    assert record.errors[2].exception is None


def test_what_pickle_cannot_name_travels_by_value() -> None:
    record = run(Biter, ["lambda", "module"], gpu_ids=[0])

    record.check(2)
    assert record.successes[0]() == 1
    assert record.successes[1] is os


def test_an_item_that_will_not_travel_is_that_tasks_error_and_the_others_go_on() -> None:
    lock_inside = {"batch": [1, MADE["lock"]()]}
    items = [1, lock_inside, 2, Unwilling(), 3]
    record = run(Biter, items, gpu_ids=[0, 1])

    record.check(5)
    assert {record.successes[n] for n in (0, 2, 4)} == {1, 2, 3}
    assert record.errors[1].kind == record.errors[3].kind == "transport"
    assert "['batch'][1]" in record.errors[1]
    assert "stays at home" in record.errors[3]


def test_when_no_item_will_travel_the_run_still_ends() -> None:
    record = run(Biter, (Unwilling() for _ in range(300)), gpu_ids=[0, 1])

    record.check(300)
    assert len(record.errors) == 300


@pytest.mark.parametrize("how", ["raise", "exit"])
def test_an_item_that_does_not_open_in_the_worker_is_that_tasks_error(how: str) -> None:
    record = run(Elsewhere, [1, OpensNowhereElse(how), 2], gpu_ids=[0])

    record.check(3)
    assert "not here" in record.errors[1]
    assert record.stats["restarts"] == 0
