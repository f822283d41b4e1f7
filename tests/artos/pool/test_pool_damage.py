"""A table that no pool has written is refused by name, and removed once nobody uses it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import damaging
import pytest
from damaging import DEVICE, SLOT, told
from helpers import PATIENCE, python
from pool_peer import Peer

from artos.pool import records as r
from artos.pool import table
from artos.pool.faults import PoolDamaged
from artos.pool.file import discard
from artos.pool.folder import PoolFolder, pool_folder
from artos.pool.pool import Pool
from artos.pool.view import clean, read_pool


@pytest.fixture
def place() -> Iterator[Path]:
    """Where the pool of the tests is."""
    yield pool_folder()
    shutil.rmtree(pool_folder(), ignore_errors=True)


@pytest.mark.processes
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(60), id="few"),
        pytest.param(range(60, 1000), id="many", marks=[pytest.mark.long, pytest.mark.exhaustive]),
    ],
)
def test_whatever_is_damaged_is_told_in_words_and_removed(place: Path, seeds: range) -> None:
    ends = set[str]()
    with python(damaging.__file__, seeds.start, seeds.stop) as process:
        assert process.stdout is not None
        for seed, line in zip(seeds, process.stdout, strict=True):
            number, used, cleaned, there = json.loads(line)
            assert used in ("in peace", "words", "SIGKILL"), line
            assert (number, cleaned, there) == (seed, "in peace", False), line
            ends.add(used)
        assert process.wait(PATIENCE) == 0
    assert ends == {"in peace", "words", "SIGKILL"}


def damaged(place: Path, at: int, value: bytes) -> None:
    """Leave a table with these bytes, whose only user is dead."""

    def leave() -> None:
        Pool.join([DEVICE, SLOT])
        with (place / "table").open("r+b") as file:
            file.seek(at)
            file.write(value)
        os.kill(os.getpid(), signal.SIGKILL)

    assert told(leave) == "SIGKILL"


KINDS = {
    "a journal of a terabyte": (r.JOURNAL_AT, struct.pack("<q", 1 << 40)),
    "a journal below nothing": (r.JOURNAL_AT, struct.pack("<q", -1)),
    "a journal of an earlier change": (r.JOURNAL_AT, struct.pack("<q", 32)),
    "more records than there can be": (r.TOPS_AT, struct.pack("<q", 1 << 20)),
    "a mutex of another kind": (r.MUTEX_AT + 16, b"\1\0\0\0"),
    "a mutex that nobody gives back": (r.MUTEX_AT, struct.pack("<i", 0x3FFFFFFF)),
    "another magic": (r.MAGIC_AT, b"x"),
    "a member without a process": (
        r.OFFSETS[r.MemberRecord], struct.pack("<5q", 1 << 40, 1, -5, 0, 0),
    ),
}  # fmt: skip


@pytest.mark.processes
@pytest.mark.parametrize("kind", KINDS)
def test_each_way_in_says_what_is_damaged_until_it_is_removed(
    place: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(table, "_LOCK_SECONDS", 0.3)
    damaged(place, *KINDS[kind])
    for enter in (lambda: Pool.join([DEVICE]), read_pool):
        if kind != "a member without a process":  # who joins frees what the dead had
            with pytest.raises(PoolDamaged, match="artos clean"):
                enter()
    assert clean() == [place]
    with Pool.join([DEVICE]) as pool:
        assert pool.enter("x").lease(1.0).resource == "cpu:a"


@pytest.mark.parametrize("target", ["/nowhere", "/etc/hostname", "table"])
def test_a_link_in_the_tables_place_is_refused_and_removed(place: Path, target: str) -> None:
    place.mkdir(0o700)
    (place / "table").symlink_to(target)
    for enter in (lambda: Pool.join([DEVICE]), read_pool):
        with pytest.raises(PoolDamaged, match="it is a link") as caught:
            enter()
        assert caught.value.path == str(place / "table")
    assert clean() == [place]
    assert Path("/etc/hostname").exists()


@pytest.mark.parametrize("size", [0, 1, 4096, r.TABLE_BYTES - 1, r.TABLE_BYTES + 4096])
def test_a_table_of_another_size_is_refused(place: Path, size: int) -> None:
    place.mkdir(0o700)
    (place / "table").touch(0o600)
    (place / "table").write_bytes(struct.pack("<2q", r.MAGIC, r.VERSION)[:size])
    os.truncate(place / "table", size)
    with pytest.raises(PoolDamaged):
        Pool.join([DEVICE])
    assert clean() == [place]


def test_what_loses_its_end_while_it_is_used_is_found_before_it_is_touched(place: Path) -> None:
    with Pool.join([DEVICE]) as pool:
        os.truncate(place / "table", 4096)
        with pytest.raises(PoolDamaged, match="has 4096 bytes"):
            pool.enter("x")
        os.truncate(place / "table", r.TABLE_BYTES)


@pytest.mark.processes
def test_a_damaged_table_is_not_removed_from_under_those_that_use_it(place: Path) -> None:
    with Peer(place, "lives") as peer:
        with (place / "table").open("r+b") as file:
            file.seek(r.JOURNAL_AT)
            file.write(struct.pack("<q", 1 << 40))
        with pytest.raises(PoolDamaged, match=str(peer.process.pid)) as caught:
            clean()
        assert caught.value.users == (peer.process.pid,)
        assert (place / "table").exists()
    assert clean() == [place]


@pytest.mark.processes
def test_who_comes_while_it_is_removed_begins_anew(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last moment for that: it has the old table open when that is removed."""
    damaged(place, r.JOURNAL_START, b"")  # not at all
    enter, old = Pool._entered, (place / "table").stat().st_ino

    def late(*arguments: Any) -> Pool | None:
        if (place / "table").stat().st_ino == old:
            assert told(lambda: discard(PoolFolder.open(place))) == "in peace"
        return enter(*arguments)

    monkeypatch.setattr(Pool, "_entered", late)
    with Pool.join([DEVICE]) as pool:
        assert pool.enter("x").lease(1.0).resource == "cpu:a"
        assert (place / "table").stat().st_ino != old
        assert read_pool().holders


@pytest.mark.processes
def test_a_table_of_another_version_that_nobody_uses_is_replaced(place: Path) -> None:
    damaged(place, r.VERSION_AT, struct.pack("<q", 99))
    with Pool.join([DEVICE]) as pool:
        assert pool.enter("x").lease(1.0).resource == "cpu:a"


@pytest.mark.processes
def test_waits_are_short(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_LOCK_SECONDS", 0.2)
    damaged(place, r.MUTEX_AT, struct.pack("<i", 0x3FFFFFFF))
    began = time.monotonic()
    with pytest.raises(PoolDamaged, match="no other process uses it"):
        read_pool()
    assert time.monotonic() - began < PATIENCE
