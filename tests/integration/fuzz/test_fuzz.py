"""Whatever is sent: a decoder refuses it or knows it, a live process goes on as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from artos.errors import BadMessage, Refused
from artos.protocol import codec
from artos.system.unpack import read, unpack
from artos.transport.channel import Envelope, framed
from artos.transport.peers import FrameSource, Peers
from evaluation.fuzz.__main__ import fuzz
from evaluation.fuzz.hostile import Hostile

CASES = 3_000


def test_every_body_is_a_message_or_is_refused() -> None:
    hostile, known, refused = Hostile(1), set(), 0
    for _ in range(CASES):
        try:
            message = codec.decode(hostile.body(codec.TYPES))
        except BadMessage:
            refused += 1
        else:
            known.add(type(message))
            sent = codec.encode(message)  # bytes: a NaN that lies deep is not equal to itself
            assert codec.encode(codec.decode(sent)) == sent
    assert refused > CASES / 4, "else this tries nothing"
    assert len(known) > len(codec.TYPES) * 0.6, "else hardly anything gets further than that"


def test_no_frame_disturbs_what_others_say() -> None:
    hostile, head = Hostile(2), Peers(lambda: 1)
    for _ in range(CASES):
        head.hear(FrameSource("evil"), [hostile.frame()], 0.0)
        head.speak("evil", 0.0, lambda _, frame: len(frame) > 0)
    head.hear(FrameSource("w1"), [framed(Envelope(5, 1, 1, content=memoryview(b"\x80")))], 0.0)
    assert {name for name, _ in head.take()} <= {"evil"}
    assert head.malformed > CASES / 2


def test_every_archive_is_refused_or_unpacked_as_it_says(tmp_path: Path) -> None:
    hostile, whole = Hostile(3), 0
    for number in range(CASES // 5):
        content = hostile.archive()
        there = tmp_path / str(number) / "there"
        try:
            unpack(content, there)
        except Refused:
            assert not there.parent.exists()
            continue
        whole += 1
        wanted = {str(entry.path) for entry in read(content)}
        found = {
            str(p.relative_to(there)) for p in there.rglob("*") if p.is_symlink() or p.is_file()
        }
        assert found == wanted
    assert whole > 10
    assert len([*tmp_path.iterdir()]) == whole, "nothing beside what was unpacked"


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(1800)  # a hundred thousand cases
def test_live_processes_of_each_kind_stay_as_they_were() -> None:
    """10^5 cases; for more: ``python -m evaluation.fuzz --cases 1000000 --seed N``."""
    said: list[str] = []
    assert fuzz(100_000, 1, said.append) == []
    assert len(said) == 8
