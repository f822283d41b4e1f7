"""The journal: what a line says, when lines are written, what is left after a crash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artos.protocol.invocations import Claim, Ready
from triggers import Firing, journal
from triggers.journal import Journal, read

Say = Callable[[Journal, float], None]


def test_the_journal_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl", began=10.0)
    firing = Firing(
        (Claim(1, 0, 4),), (Claim(2, 0, 4, 5),), actors=(1,), version=3, trigger="t", number=8
    )
    journal.fired(12.5000004, firing)
    journal.done(13.0, 8, "learner", version=4)
    journal.close()
    journal.close()
    assert [*read(tmp_path / "journal.jsonl")] == [
        {"t": 2.5, "firing": 8, "trigger": "t", "version": 3, "claims": [[1, 0, 4]],
         "dropped": [[2, 0, 4, 5]], "actors": [1]},
        {"t": 3.0, "done": 8, "by": "learner", "version": 4},
    ]  # fmt: skip


def test_a_journal_is_continued_not_overwritten(tmp_path: Path) -> None:
    for number in range(2):
        journal = Journal(tmp_path / "journal.jsonl")
        journal.write({"firing": number})
        journal.close()
    assert [line["firing"] for line in read(tmp_path / "journal.jsonl")] == [0, 1]


def test_a_line_cut_off_at_any_byte_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    for number in range(3):
        journal.fired(0.0, Firing(number=number, trigger="learner.update"))
    journal.flush()
    whole, lines = path.read_bytes(), [*read(path)]
    journal.close()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert [*read(path)] == lines[: whole[:end].count(b"\n")]


@pytest.mark.parametrize(
    ("say", "line"),
    [
        (lambda book, now: book.fired(now, Firing(trigger="t")),
         {"firing": 0, "trigger": "t", "version": -1}),
        (lambda book, now: book.done(now, 3, "learner"), {"done": 3, "by": "learner"}),
        (lambda book, now: book.done(
            now, 3, "actor 1", seconds=1.2345674, times={"env": 0.1000004, "policy": 2.0}, rows=5),
         {"done": 3, "by": "actor 1", "rows": 5, "seconds": 1.234567,
          "times": {"env": 0.1, "policy": 2.0}}),
        (lambda book, now: book.ready(now, "actor 1", Ready(9.0, start="clone"), 0.1234564),
         {"ready": "actor 1", "start": "clone", "seconds": 0.123456}),
        (lambda book, now: book.ready(now, "actor 1", Ready(9.0, moved=("a", "b")), 0.0),
         {"ready": "actor 1", "start": "cold", "from": "a", "to": "b", "seconds": 0.0}),
        (lambda book, now: book.ready(now, "actor 1", Ready(9.0), None),
         {"ready": "actor 1", "start": "cold", "anew": True}),
    ],
    ids=["fired", "done", "done with times", "ready", "moved", "anew"],
)  # fmt: skip
@pytest.mark.parametrize("began", [None, 10.0])
def test_each_line_says_when_to_the_microsecond(
    tmp_path: Path, say: Say, line: dict[str, Any], began: float | None
) -> None:
    """In seconds since the run began; without that, of the clock."""
    path = tmp_path / "journal.jsonl"
    book = Journal(path) if began is None else Journal(path, began)
    say(book, 12.3456784)
    book.close()
    assert [*read(path)] == [{"t": 12.345678 if began is None else 2.345678, **line}]


def test_lines_are_written_in_batches_and_when_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_MOST_HELD", 3)
    path = tmp_path / "journal.jsonl"
    book = Journal(path)
    written = []
    for number in range(7):
        book.write({"firing": number})
        written.append(len([*read(path)]))
    assert written == [0, 0, 3, 3, 3, 6, 6]
    for _ in range(2):
        book.flush()
        assert [line["firing"] for line in read(path)] == list(range(7))
    book.close()
    book.close()


def test_what_cannot_be_written_is_kept_but_not_without_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest lines are kept; whoever flushes is told, whoever writes is not."""
    monkeypatch.setattr(journal, "_MOST_HELD", 2)
    monkeypatch.setattr(journal, "_MOST_KEPT", 5)
    path = tmp_path / "journal.jsonl"
    book = Journal(path)
    full = OSError("no space left")

    def refuse(piece: bytes) -> None:
        raise full

    with monkeypatch.context() as disk:
        disk.setattr(book._file, "append", refuse)
        for number in range(8):
            book.write({"firing": number})
        with pytest.raises(OSError, match="no space left"):
            book.flush()
    book.flush()
    assert [line["firing"] for line in read(path)] == [3, 4, 5, 6, 7]
    book.write({"firing": 8})
    monkeypatch.setattr(book._file, "append", refuse)
    with pytest.raises(OSError, match="no space left"):
        book.close()
    book.close()
    assert len([*read(path)]) == 5
