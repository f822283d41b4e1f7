"""A journal of parts: what is written is read, once and in order, whoever dies or looks when."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import lz4.frame
import pytest

from artos.system.append_file import AppendFile
from triggers import journal as journal_module
from triggers import journal_parts
from triggers.journal import Journal, JournalDamaged, read
from triggers.journal_parts import files, parts

MOST = 300  # some twenty lines
NAME = "journal.jsonl"


def numbers(folder: Path, since: int = 0) -> list[int]:
    return [line["n"] for line in read(folder / NAME, since)]


def written(folder: Path, lines: int, *, most: int = MOST, at_once: int = 5) -> None:
    """A journal with so many lines more, all of whose parts are packed."""
    with_parts = Journal(folder / NAME, most=most)
    first = with_parts._end
    for number in range(first, first + lines):
        with_parts.write({"n": number})
        if number % at_once == 0:
            with_parts.flush()
    for _ in range(200):
        with_parts.flush()
    with_parts.close()


def test_lines_are_the_same_in_parts(tmp_path: Path) -> None:
    written(tmp_path, 200)
    found = parts(tmp_path / NAME)
    assert len(found) > 5
    assert [part.first for part in found] == [0, *(part.end for part in found[:-1])]
    assert {file.name for file in tmp_path.iterdir()} == {NAME, *(p.packed.name for p in found)}
    assert (tmp_path / NAME).stat().st_size < MOST
    assert numbers(tmp_path) == [*range(200)]


def test_whoever_goes_on_counts_on(tmp_path: Path) -> None:
    for round_ in range(1, 6):
        written(tmp_path, 37)
        with (tmp_path / NAME).open("ab") as torn:
            torn.write(b'{"n": 1')
        assert numbers(tmp_path) == [*range(37 * round_)]


def test_a_journal_that_was_never_divided_becomes_a_part(tmp_path: Path) -> None:
    written(tmp_path, 100, most=1 << 20)
    assert parts(tmp_path / NAME) == []
    written(tmp_path, 1)
    assert [(part.first, part.end) for part in parts(tmp_path / NAME)] == [(0, 101)]
    assert numbers(tmp_path) == [*range(101)]


def test_a_part_is_packed_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_parts, "PIECE", 100)
    book = Journal(tmp_path / NAME, most=MOST)
    for number in range(40):
        book.write({"n": number})
    book.flush()
    (part,) = parts(tmp_path / NAME)
    flushes = 0
    while part.plain.exists():
        assert numbers(tmp_path) == [*range(40)]
        book.flush()
        flushes += 1
    assert flushes > 2
    assert numbers(tmp_path) == [*range(40)]
    book.close()


def test_what_is_not_packed_at_the_end_is_packed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_parts, "PIECE", 10)
    book = Journal(tmp_path / NAME, most=MOST)
    for number in range(40):
        book.write({"n": number})
    book.close()
    (part,) = parts(tmp_path / NAME)
    assert files(tmp_path / NAME) - set(tmp_path.iterdir()) == {tmp_path / f".{NAME}.lz4.tmp"}
    assert part.plain.exists()
    written(tmp_path, 1)
    assert not part.plain.exists()
    assert numbers(tmp_path) == [*range(41)]


def test_what_cannot_be_packed_stays_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        written(tmp_path, 50)
    found = parts(tmp_path / NAME)
    assert caplog.text.count("stays as it is") == len(found) == 1
    assert {file.name for file in tmp_path.iterdir()} == {NAME, *(p.plain.name for p in found)}
    assert numbers(tmp_path) == [*range(50)]


# -- killed ----------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process is gone: nothing that it would still do has an effect."""


@contextmanager
def killed_at(effect: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Ends the process before its so-manieth effect on the disk; an append is cut in two."""
    done: list[str] = []

    def fatal(kind: type, name: str) -> None:
        real: Callable[..., Any] = getattr(kind, name)

        def acts(*args: Any, **options: Any) -> Any:
            if len(done) > effect:
                return None
            done.append(name)
            if len(done) > effect:
                if name == "append":
                    real(args[0], args[1][: len(args[1]) // 2])
                raise Killed
            return real(*args, **options)

        monkeypatch.setattr(kind, name, acts)

    with monkeypatch.context() as monkeypatch:
        for kind, name in (
            (Path, "rename"), (Path, "replace"), (Path, "unlink"), (os, "fsync"), (os, "open"),
            (AppendFile, "append"), (lz4.frame.LZ4FrameCompressor, "compress"),
        ):  # fmt: skip
            fatal(kind, name)
        with suppress(Killed):
            yield done


def test_no_kill_loses_or_doubles_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, books = set(), []  # who is killed cleans up nothing, as one that is collected would
    for effect in range(1000):
        folder = tmp_path / str(effect)
        folder.mkdir()
        flushed = 0
        with killed_at(effect, monkeypatch) as done:
            books.append(book := Journal(folder / NAME, most=60))
            for number in range(16):
                book.write({"n": number})
                book.flush()
                flushed = number + 1
            book.close()
        if len(done) <= effect:
            break
        seen.add(done[effect])
        there = numbers(folder) if flushed else []
        assert there == [*range(len(there))]
        assert len(there) - flushed in {0, 1}
        written(folder, 30, most=60)
        assert numbers(folder) == [*range(len(there) + 30)]
        assert not [file for file in folder.iterdir() if file.name.startswith(".")]
    assert {"append", "rename", "compress", "fsync", "replace", "unlink", "open"} <= seen
    assert len(done) <= effect, "it was tried before each effect"


# -- read while it is written ----------------------------------------------------------------------


def test_who_reads_while_it_is_written_sees_each_line_once(tmp_path: Path) -> None:
    book = Journal(tmp_path / NAME, most=MOST)
    reader, seen, followed = read(tmp_path / NAME), [], 0
    for number in range(300):
        book.write({"n": number})
        book.flush()
        if number % 7 == 0:
            followed += len(numbers(tmp_path, followed))
            assert followed == number + 1
        if number % 2:
            seen.append(next(reader)["n"])
    assert seen == [*range(150)]
    assert [line["n"] for line in reader] == [*range(150, 300)]
    book.close()


@pytest.mark.parametrize("since", [0, 39, 40, -1, -40])
def test_a_journal_that_becomes_a_part_meanwhile_is_not_read_twice(
    since: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Journal(tmp_path / NAME, most=1 << 20)
    for number in range(40):
        book.write({"n": number})
    book.flush()
    real = journal_module.parts

    def rotated(path: Path) -> list[Any]:
        book._most = 1
        book.flush() if book._lines else None
        return real(path)

    book.write({"n": 40})
    monkeypatch.setattr(journal_module, "parts", rotated)
    assert numbers(tmp_path, since) == [*range(41)][since:]
    book.close()


def test_a_part_that_is_packed_between_two_looks_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 60)
    (part, *_) = parts(tmp_path / NAME)
    real, looks = journal_parts.opened, []

    def absent_at_first(file: Path) -> Any:
        looks.append(file)
        return real(tmp_path / "absent" if len(looks) == 1 else file)

    monkeypatch.setattr(journal_parts, "opened", absent_at_first)
    with part.opened() as file:
        assert len(file.readlines()) == part.end
    assert looks == [part.packed, part.plain, part.packed]


# -- a range of lines ------------------------------------------------------------------------------


def test_parts_before_the_first_line_wanted_are_not_opened(tmp_path: Path) -> None:
    written(tmp_path, 200)
    found = parts(tmp_path / NAME)
    for since in range(200):
        assert numbers(tmp_path, since) == [*range(since, 200)]
        assert numbers(tmp_path, -since) == [*range(200 - since if since else 0, 200)]
    for part in found[:-1]:
        part.packed.write_bytes(b"")
    assert numbers(tmp_path, found[-2].end) == [*range(found[-2].end, 200)]
    assert numbers(tmp_path, -5) == [*range(195, 200)]
    assert numbers(tmp_path, 200) == numbers(tmp_path, 500) == []
    with pytest.raises(JournalDamaged):
        numbers(tmp_path, found[-2].end - 1)


# -- damaged ---------------------------------------------------------------------------------------


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[random.Random(1).randrange(len(content))] ^= 0x41
    file.write_bytes(content)


def fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def link(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


DAMAGES = {
    "missing": Path.unlink,
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: os.truncate(file, file.stat().st_size - 7),
    "longer": lambda file: file.write_bytes(2 * file.read_bytes()),
    "garbage": lambda file: file.write_bytes(b"\xff\n"),
    "deep": lambda file: file.write_bytes(b"[" * 5000 + b"\n"),
    "no object": lambda file: file.write_bytes(b"7\n"),
    "flipped": flipped, "fifo": fifo, "folder": folder, "link": link,
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("packed", [True, False])
def test_a_damaged_part_is_named(packed: bool, damage: str, tmp_path: Path) -> None:
    written(tmp_path, 200)
    part = parts(tmp_path / NAME)[1]
    if not packed:
        part.plain.write_bytes(lz4.frame.decompress(part.packed.read_bytes()))
        part.packed.unlink()
    DAMAGES[damage](part.packed if packed else part.plain)
    with pytest.raises(JournalDamaged, match=part.plain.name) as damaged:
        numbers(tmp_path)
    assert damaged.value.path in (str(part.plain), str(part.packed))


def test_the_newest_part_is_missed_too(tmp_path: Path) -> None:
    """No name tells of it; and whoever goes on counts from the one before."""
    written(tmp_path, 200)
    parts(tmp_path / NAME)[-1].packed.unlink()
    for _ in range(2):
        with pytest.raises(JournalDamaged, match="a part is missing"):
            numbers(tmp_path)
        written(tmp_path, 100)


@pytest.mark.parametrize("damage", ["garbage", "deep", "no object", "fifo", "folder", "link"])
def test_a_damaged_journal_is_named(damage: str, tmp_path: Path) -> None:
    written(tmp_path, 100)
    DAMAGES[damage](tmp_path / NAME)
    with pytest.raises(JournalDamaged, match=f"{NAME}: "):
        numbers(tmp_path)


@pytest.mark.parametrize("damage", ["fifo", "folder", "link"])
def test_what_is_no_file_is_not_gone_on_with(damage: str, tmp_path: Path) -> None:
    written(tmp_path, 10)
    DAMAGES[damage](tmp_path / NAME)
    with pytest.raises(OSError, match=r"no regular file|directory|symbolic links"):
        Journal(tmp_path / NAME)


def test_a_line_that_never_ends_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "LONGEST_LINE", 1000)
    (tmp_path / NAME).write_bytes(b"{}\n" + b" " * 5000)
    with pytest.raises(JournalDamaged, match="1 whole lines"):
        [*read(tmp_path / NAME)]


def test_there_is_no_journal(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(JournalDamaged, match="No such file"):
            numbers(place)


def test_files_of_others_are_no_parts(tmp_path: Path) -> None:
    written(tmp_path, 40)
    before = files(tmp_path / NAME)
    zero, nine = f"{0:012}", f"{9:012}"
    for name in (
        "journal-notes.jsonl", "journal-1-2.jsonl", f"journal-0{zero}-{nine}.jsonl",
        f"my-journal-{zero}-{nine}.jsonl", f"journal-{zero}-{nine}.json",
    ):  # fmt: skip
        (tmp_path / name).write_text("mine")
    assert files(tmp_path / NAME) == before
    assert numbers(tmp_path) == [*range(40)]
