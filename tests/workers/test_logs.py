"""Rotation of actors' logs under a process that keeps its file open."""

from __future__ import annotations

from pathlib import Path

from workers.logs import rotate


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "actor-0.log"
    assert not rotate(log, 10)
    log.write_text("0123456789")
    assert not rotate(log, 10)
    assert log.read_text() == "0123456789"
    assert list(tmp_path.iterdir()) == [log]


def test_whoever_appends_goes_on_without_noticing(tmp_path: Path) -> None:
    log = tmp_path / "actor-0.log"
    with log.open("ab", buffering=0) as writer:
        for text in (b"first first", b"second second", b"third third"):
            writer.write(text)
            assert rotate(log, 10)
            assert log.stat().st_size == 0
        writer.write(b"now")
    assert log.read_bytes() == b"now"
    assert log.with_name("actor-0.log.1").read_bytes() == b"hird third"
    assert log.with_name("actor-0.log.2").read_bytes() == b"ond second"
    assert len(list(tmp_path.iterdir())) == 3
