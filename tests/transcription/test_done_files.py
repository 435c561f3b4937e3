"""Which files are done, and writing so that half a file is never taken for one."""

from __future__ import annotations

import os
import stat

import pytest

from gpu_dispatch.errors import UsageError
from gpu_dispatch.transcription.outputs import sweep_parts, write_atomically
from gpu_dispatch.transcription.record import Record, content_hash, holds, read_record
from gpu_dispatch.transcription.settings import TranscriptionSettings
from gpu_dispatch.transcription.transcript import Segment, Transcript


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(b"sound")
    return path


def recorded(source, key="k") -> Record:
    status = source.stat()
    transcript = Transcript((Segment(0.0, 1.0, "hi"),), 1.0, 1.0, "en", 0.9)
    return Record("a.wav", status.st_size, status.st_mtime_ns, content_hash(source), key, {"model": "m"}, transcript)


def test_a_record_survives_the_disk(source, tmp_path):
    record = recorded(source)
    write_atomically(tmp_path / "a.json", record.to_json())

    assert read_record(tmp_path / "a.json") == record


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"format": "x"}', b"\xff\xfe"])
def test_something_else_under_the_name_of_a_record_is_not_a_record(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)

    assert read_record(tmp_path / "a.json") is None


def test_a_record_cut_at_any_byte_is_not_a_record(source, tmp_path):
    text = recorded(source).to_json().rstrip()
    for length in range(len(text)):
        (tmp_path / "a.json").write_text(text[:length], encoding="utf-8")
        assert read_record(tmp_path / "a.json") is None, length


def test_an_untouched_file_is_done(source):
    assert holds(recorded(source), source, "k")


def test_other_settings_are_not_done(source):
    assert not holds(recorded(source), source, "other")


def test_a_copy_with_a_new_date_is_done(source):
    record = recorded(source)
    os.utime(source, ns=(1, 1))

    assert holds(record, source, "k")


def test_changed_content_of_equal_size_is_not_done(source):
    record = recorded(source)
    source.write_bytes(b"SOUND")
    os.utime(source, ns=(1, 1))

    assert not holds(record, source, "k")


def test_changed_content_with_its_old_date_is_found_by_checksum(source):
    record = recorded(source)
    source.write_bytes(b"SOUND")
    os.utime(source, ns=(record.mtime_ns, record.mtime_ns))

    assert not holds(record, source, "k", checksum=True)


def test_a_source_that_is_gone_is_not_done(source):
    record = recorded(source)
    source.unlink()

    assert not holds(record, source, "k")


@pytest.mark.parametrize(
    "other",
    [
        TranscriptionSettings(language="de"),
        TranscriptionSettings(task="translate"),
        TranscriptionSettings(beam_size=1),
        TranscriptionSettings(word_timestamps=True),
        TranscriptionSettings(vad=False),
        TranscriptionSettings(initial_prompt="CTranslate2"),
        TranscriptionSettings(compute_type="float32"),
        TranscriptionSettings(allow_damaged=True),
    ],
)
def test_everything_that_changes_the_text_changes_the_key(other):
    base = TranscriptionSettings()

    assert base.key("engine", "model") == TranscriptionSettings().key("engine", "model")
    assert len({base.key("engine", "model"), other.key("engine", "model")}) == 2
    assert len({base.key("engine", "model"), base.key("engine", "m2"), base.key("e2", "model")}) == 3


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"language": "english"}, "english"),
        ({"language": ""}, "language"),
        ({"task": "sing"}, "sing"),
        ({"beam_size": 0}, "beam_size"),
        ({"beam_size": True}, "beam_size"),
        ({"compute_type": "int4"}, "int4"),
    ],
)
def test_a_wrong_setting_is_named(wrong, says):
    with pytest.raises(UsageError, match=says):
        TranscriptionSettings(**wrong)


def test_an_existing_file_is_replaced_and_nothing_else_is_left(tmp_path):
    target = tmp_path / "new" / "a.txt"
    write_atomically(target, "one")
    write_atomically(target, "zwölf")

    assert target.read_text(encoding="utf-8") == "zwölf"
    assert os.listdir(target.parent) == ["a.txt"]


def test_a_symlink_is_replaced_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("keep")
    (tmp_path / "a.txt").symlink_to(victim)
    write_atomically(tmp_path / "a.txt", "new")

    assert victim.read_text() == "keep"
    assert not (tmp_path / "a.txt").is_symlink()


def test_the_umask_decides_who_may_read(tmp_path):
    old = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a.txt", "x")
    finally:
        os.umask(old)

    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path):
    target = tmp_path / "a.txt"
    write_atomically(target, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(target, "\ud800")

    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_rests_of_a_killed_run_are_swept_but_not_those_of_a_running_one(tmp_path):
    old, fresh = (tmp_path / f".{name}.gpu-dispatch-part" for name in ("old", "fresh"))
    old.touch()
    fresh.touch()
    os.utime(old, (1, 1))

    assert sweep_parts(tmp_path) == 1
    assert fresh.exists()
    assert not old.exists()
