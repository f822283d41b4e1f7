"""Any part of a journal is found by its time, wherever its files end and whoever resumed it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lz4.block
import lz4.frame
import pytest

from triggers import journal_index, journal_parts
from triggers.journal import Journal, JournalDamaged, read
from triggers.journal_index import JournalIndex
from triggers.journal_parts import parts

NAME = "journal.jsonl"


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"_GAP": 2_000, "_OWN_GAP": 500, "_PIECE": 300, "_NEAR": 200}.items():
        monkeypatch.setattr(journal_index, name, size)


def written(path: Path, lines: int, most: int, *, resumed: int = 0, seed: int = 1) -> None:
    """A journal of so many lines that was resumed so often, with lines that tell no time."""
    chance = random.Random(seed)
    for _ in range(resumed + 1):
        journal, now = Journal(path, most=most), 0.0
        for number in range(lines // (resumed + 1)):
            now += chance.expovariate(1.0)
            line: dict[str, Any] = {
                "t": round(now, 6),
                "n": number,
                "x": "x" * chance.randrange(40),
            }
            journal.write(line if number % 7 else {"n": number})
            if number % 10 == 0:
                journal.flush()
        for _ in range(300):
            journal.flush()
        journal.close()


def linked(path: Path) -> None:
    """Its parts as earlier versions packed them."""
    for part in parts(path):
        part.packed.write_bytes(lz4.frame.compress(lz4.frame.decompress(part.packed.read_bytes())))


def as_written(path: Path) -> None:
    """Its parts as they are."""


def unpacked(path: Path) -> None:
    """Its parts as they are before they are packed."""
    for part in parts(path):
        part.plain.write_bytes(lz4.frame.decompress(part.packed.read_bytes()))
        part.packed.unlink()


@pytest.mark.parametrize("change", [as_written, linked, unpacked])
@pytest.mark.parametrize("most", [3_000, 10**9])
def test_lines_are_those_that_are_read_from_the_start(
    tmp_path: Path, most: int, change: Callable[[Path], None]
) -> None:
    written(tmp_path / NAME, 600, most)
    change(tmp_path / NAME)
    whole = [*read(tmp_path / NAME)]
    with JournalIndex(tmp_path / NAME) as index:
        found = [*index.lines()]
        # The first line after a part has its number, which only a reader of all lines can check.
        assert [{**line, "line": 0} for _, line in found if line] == [
            {**line, "line": 0} for line in whole
        ]
        chance = random.Random(2)
        for _ in range(100):
            begin, end = sorted(chance.randrange(index.size + 1) for _ in range(2))
            assert [*index.lines(begin, end)] == [x for x in found if begin <= x.address < end]


@pytest.mark.parametrize("resumed", [0, 1, 4])
def test_a_time_is_found_near_it(tmp_path: Path, resumed: int) -> None:
    written(tmp_path / NAME, 1_200, 5_000, resumed=resumed)
    with JournalIndex(tmp_path / NAME) as index:
        times, offset, before = [], 0.0, 0.0
        for address, line in index.lines():
            assert line is not None
            if (t := line.get("t")) is not None:
                if t < before:
                    offset += before
                before = t
                times.append((address, offset + t))
                assert index.offset_at(address) == pytest.approx(offset)
        assert (index.begin, index.end) == (times[0][1], pytest.approx(times[-1][1]))
        assert index.end > 1_000
        for seconds in (random.Random(3).uniform(0, index.end) for _ in range(200)):
            low, high = index.before(seconds), index.after(seconds)
            assert all(t <= seconds for address, t in times if address <= low)
            assert all(t >= seconds for address, t in times if address >= high)
            assert high - low < 1_000, "little is read that is not wanted"
        assert (index.before(-1), index.after(-1)) == (0, 0)
        assert index.after(2 * index.end) == index.size


def test_a_short_run_that_went_on_for_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks: its lines say where it went on, as their times soon are as large."""
    monkeypatch.setattr(journal_index, "_OWN_GAP", 10**6)
    for seconds, epoch in ((10, 5.0), (20, 90.0), (400, 200.0)):
        journal = Journal(tmp_path / NAME)
        journal.begins(0.0, epoch)
        for t in range(1, seconds + 1):
            journal.write({"t": float(t), "x": '"began":' * (t == 5)})
        journal.close()
    with JournalIndex(tmp_path / NAME) as index:
        assert (index.begin, index.end) == (0.0, 430.0)
        starts = [address for address, line in index.lines() if line and "began" in line]
        assert [index.offset_at(at) for at in starts] == [0.0, 10.0, 30.0]
        assert [index.offset_at(at - 1) for at in starts[1:]] == [0.0, 10.0]


@pytest.mark.parametrize("late", [10**400, 1e300, 2e9])
def test_a_line_with_a_time_that_cannot_be_meant_has_none(tmp_path: Path, late: float) -> None:
    written(tmp_path / NAME, 900, 10**9)
    with (tmp_path / NAME).open("ab") as file:
        file.write(f'{{"t": {late}, "n": 900}}\n'.encode())
    written(tmp_path / NAME, 900, 10**9)
    times = [line["t"] for line in read(tmp_path / NAME) if line.get("t", late) != late]
    with JournalIndex(tmp_path / NAME) as index:
        assert index.end <= 2 * max(times)
        near = [line for _, line in index.lines(index.before(times[50]), index.after(times[50]))]
        assert any(line and line.get("t") == times[50] for line in near)


def test_a_number_that_grows_is_found(tmp_path: Path) -> None:
    written(tmp_path / NAME, 900, 4_000)
    with JournalIndex(tmp_path / NAME) as index:
        for wanted in range(0, 900, 13):
            address = index.search(lambda line: line["n"], wanted)
            numbers = [line["n"] for _, line in index.lines(address) if line]
            assert numbers[0] <= wanted
            assert wanted in numbers[:20]
        assert index.search(lambda line: line["n"], 10**6) > index.size - 1_000


def test_of_a_long_journal_little_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in {"_GAP": 1 << 20, "_PIECE": 64 << 10, "_NEAR": 16 << 10}.items():
        monkeypatch.setattr(journal_index, name, size)
    journal = Journal(tmp_path / NAME, most=4 << 20)
    for number in range(60_000):
        journal.write({"t": float(number), "x": f"{number:0200}"})
    for _ in range(300):
        journal.flush()
    journal.close()
    assert len(parts(tmp_path / NAME)) == 3
    blocks, real = list[int](), lz4.block.decompress

    def unpack(data: bytes, uncompressed_size: int) -> Any:
        blocks.append(uncompressed_size)
        return real(data, uncompressed_size=uncompressed_size)

    monkeypatch.setattr(lz4.block, "decompress", unpack)
    with JournalIndex(tmp_path / NAME) as index:
        opened = len(blocks)
        begin, end = index.before(20_000.5), index.after(20_001.5)
        assert {20_000.0, 20_001.0} <= {
            line["t"] for _, line in index.lines(begin, end + 500) if line
        }
        assert opened <= 20
        assert len(blocks) - opened <= 12
    blocks.clear()
    JournalIndex(tmp_path / NAME).close()
    assert len(blocks) <= 4, "times of parts are remembered"


def test_it_is_as_long_as_when_it_was_opened(tmp_path: Path) -> None:
    written(tmp_path / NAME, 100, 10**9)
    with JournalIndex(tmp_path / NAME) as index:
        before = [*index.lines()]
        with (tmp_path / NAME).open("ab") as file:
            file.write(b'{"t": 1e9}\n')
        assert [*index.lines()] == before
        with JournalIndex(tmp_path / NAME) as longer:
            assert longer.end == 1e9
    with (tmp_path / NAME).open("ab") as file:
        file.write(b'{"t": 2e9')
    with JournalIndex(tmp_path / NAME) as torn:
        assert torn.end == 1e9, "a line that is being written is none yet"


def test_what_cannot_be_understood_is_no_line(tmp_path: Path) -> None:
    written(tmp_path / NAME, 30, 10**9)
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(b'\xff\xfe nonsense\n{"t": "soon"}\n[1]\n' + whole)
    with JournalIndex(tmp_path / NAME) as index:
        found = [line for _, line in index.lines()]
    assert found[:3] == [None, {"t": "soon"}, None]
    assert None not in found[3:]


def test_damage_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / NAME, 600, 3_000)
    first, second, third = parts(tmp_path / NAME)[:3]
    whole = second.packed.read_bytes()
    second.packed.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(JournalDamaged, match="cut off"):
        JournalIndex(tmp_path / NAME)
    second.packed.write_bytes(whole[:200] + bytes(100) + whole[300:])
    with pytest.raises(JournalDamaged), JournalIndex(tmp_path / NAME) as index:
        [*index.lines()]
    second.packed.unlink()
    with pytest.raises(JournalDamaged, match=f"{first.end} to {third.first} are missing"):
        JournalIndex(tmp_path / NAME)
    with pytest.raises(JournalDamaged, match="No such file"):
        JournalIndex(tmp_path / "nothing" / NAME)
    with pytest.raises(JournalDamaged, match="No such file"):
        JournalIndex(tmp_path / "other.jsonl")
    os.mkfifo(tmp_path / "fifo.jsonl")
    with pytest.raises(JournalDamaged, match="no regular file"):
        JournalIndex(tmp_path / "fifo.jsonl")
    (tmp_path / "endless.jsonl").write_bytes(b"x" * 5_000)
    monkeypatch.setattr(journal_index, "LONGEST_LINE", 1_000)
    with pytest.raises(JournalDamaged, match="has no end"):
        JournalIndex(tmp_path / "endless.jsonl")


def test_an_empty_one_has_no_times(tmp_path: Path) -> None:
    (tmp_path / NAME).touch()
    with JournalIndex(tmp_path / NAME) as index:
        assert (index.begin, index.end, index.size, [*index.lines()]) == (0.0, 0.0, 0, [])
        assert (index.before(1.0), index.after(1.0), index.time_at(0), index.offset_at(0)) == (
            0,
        ) * 4
    assert not [*journal_parts.parts(tmp_path / NAME)]
