"""Names of transcripts: none lost to another, none outside the folder, and the same tomorrow."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest

from gpu_dispatch.transcription.naming import OutputNames, crowded_stems, stem_of
from gpu_dispatch.transcription.record import Record, printable
from gpu_dispatch.transcription.transcript import Transcript


def claim_all(output_dir: Path, *names: str, sources: tuple[Path, ...] = ()) -> dict[str, str]:
    relatives = [PurePath(name) for name in names]
    crowded = crowded_stems(relatives)
    outputs = OutputNames(output_dir, sources)
    return {str(r): outputs.claim(r, crowded=stem_of(r) in crowded).stem for r in relatives}


def finish(output_dir: Path, stem: str, source: str) -> None:
    """What a run leaves behind for ``source``."""
    record = Record(source, 1, 1, "0", "key", {}, Transcript((), 0.0, 0.0))
    path = output_dir / f"{stem}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(record.to_json(), encoding="utf-8")


def test_folders_are_mirrored_and_unicode_is_kept(tmp_path):
    assert claim_all(tmp_path, "a.wav", "talks/Käse 日本.mp3", "talks/deep/b.flac") == {
        "a.wav": "a",
        "talks/Käse 日本.mp3": "talks/Käse 日本",
        "talks/deep/b.flac": "talks/deep/b",
    }


def test_equal_stems_with_different_suffixes_do_not_overwrite_each_other(tmp_path):
    assert claim_all(tmp_path, "a.wav", "a.mp3", "b.wav") == {"a.wav": "a.wav", "a.mp3": "a.mp3", "b.wav": "b"}


def test_a_full_name_does_not_collide_with_a_stem(tmp_path):
    stems = claim_all(tmp_path, "a.wav", "a.flac", "a.wav.mp3")  # both a.wav and a.wav.mp3 would like to be "a.wav"

    assert len(set(stems.values())) == 3


@pytest.mark.parametrize(
    ("one", "other"), [("A.wav", "a.wav"), ("caf\u00e9.wav", "cafe\u0301.wav"), ("S/x.wav", "s/x.wav")]
)
def test_names_that_some_file_systems_hold_for_equal_get_different_outputs(tmp_path, one, other):
    stems = list(claim_all(tmp_path, one, other).values())

    assert stems[0].casefold() != stems[1].casefold()
    assert "~" in stems[1]


def test_a_file_added_later_does_not_take_over_a_finished_transcript(tmp_path):
    finish(tmp_path, "a", "a.wav")

    assert claim_all(tmp_path, "a.mp3") == {"a.mp3": "a.mp3"}  # another pattern than the first run's
    assert claim_all(tmp_path, "a.mp3", "a.wav") == {"a.mp3": "a.mp3", "a.wav": "a"}  # and a.wav is still done


def test_a_damaged_record_belongs_to_nobody(tmp_path):
    (tmp_path / "a.json").write_text('{"format": "gpu_dispatch.trans', encoding="utf-8")

    assert claim_all(tmp_path, "a.wav") == {"a.wav": "a"}


def test_a_source_is_never_overwritten(tmp_path):
    source = tmp_path / "notes.txt"  # somebody's audio, oddly named; output next to input
    source.touch()

    assert claim_all(tmp_path, "notes.txt", sources=(source,)) == {"notes.txt": "notes.txt"}


def test_a_name_as_long_as_the_file_system_allows_still_gets_an_output(tmp_path):
    names = ["ü" * 125 + ".wav", "ü" * 125 + ".mp3"]
    stems = claim_all(tmp_path, *names)

    assert len(set(stems.values())) == 2
    for stem in stems.values():
        (tmp_path / f"{stem}.json").touch()


@pytest.mark.parametrize("name", ["../a.wav", "/etc/passwd", "a/../../b.wav"])
def test_no_output_outside_the_output_folder(tmp_path, name):
    with pytest.raises(ValueError, match="does not lie inside"):
        OutputNames(tmp_path).claim(PurePath(name))


def test_a_name_that_is_no_utf8_can_still_be_written_down():
    assert printable("caf\udce9.wav") == r"caf\xe9.wav"
