"""A change of the table is whole: whoever comes after a death in its midst finds old or new."""

from __future__ import annotations

from pathlib import Path

import pytest

from artos.clock import ManualClock
from artos.pool import records, table
from artos.pool.pool import Pool
from artos.pool.resources import Party, Resource
from artos.pool.scheduler import LeaseScheduler
from artos.pool.table import Table


class Torn:
    """A memory that takes note of what it was before each store."""

    def __init__(self, memory: memoryview, images: list[bytes], whole: memoryview) -> None:
        self._memory, self._images, self._whole = memory, images, whole

    def __getitem__(self, key: object) -> object:
        return self._memory[key]  # type: ignore[index]

    def __setitem__(self, key: object, value: object) -> None:
        self._images.append(bytes(self._whole))
        if isinstance(key, slice) and len(value) > 8:  # type: ignore[arg-type]
            middle = key.start + 5  # a long store may be torn anywhere
            self._memory[key.start : middle] = value[:5]  # type: ignore[index]
            self._images.append(bytes(self._whole))
        self._memory[key] = value  # type: ignore[index]


def state(path: Path) -> list[object]:
    """All records, and the lease words of all seats, read under the lock."""
    with Table.open(path.parent, create=False) as opened, opened.change():
        LeaseScheduler(opened, 0)
        opened.commit()
        areas = (opened.kinds, opened.resources, opened.members, opened.accounts, opened.seats)
        live = [[*opened.lease_words(seat)] for seat, _ in opened.seats.items()]
        return [[repr(each) for each in area.items()] for area in areas] + [live]


@pytest.mark.parametrize("party", [None, Party(7, 2)])
def test_a_change_is_there_as_a_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, party: Party | None
) -> None:
    folder, clock = tmp_path / "pool", ManualClock(50.0)
    monkeypatch.setattr(table, "check_version", lambda *_: None)
    monkeypatch.setattr(LeaseScheduler, "_lives", lambda *_: True)  # nobody has a lock of a copy
    devices = [Resource("d"), Resource("e")]
    with Pool.join(devices[: party.seats if party else 1], folder=folder, clock=clock) as pool:
        first = pool.enter("first", "d")
        waiting = [pool.enter("second", each.name, party=party) for each in pool.resources]
        lease = first.lease(3.0)
        for seat in waiting:
            seat.ask_for_lease()
        clock.advance(1.0)
        before, images = state(folder / "table"), list[bytes]()
        whole = pool.table._memory
        with monkeypatch.context() as patched:
            words = Torn(pool.table._words, images, whole)
            patched.setattr(pool.table, "_words", words)
            patched.setattr(pool.table.hand_overs, "_words", words)
            patched.setattr(pool.table, "_memory", Torn(whole, images, whole))
            assert pool.withdraw_seat(0), "the first seat holds"
            assert pool.give_back_lease(0), "so the device goes to the second seat, or a party"
        after = state(folder / "table")
        assert all(seat.take_lease() for seat in waiting)
        lease.close()
    assert before != after
    assert len(images) > 20
    found = set[bool]()
    for number, image in enumerate(images):
        copy = tmp_path / str(number) / "table"
        copy.parent.mkdir()
        # Of the mutex take the one of a new table: nobody holds it.
        fresh = bytearray(image)
        fresh[records.MUTEX_AT : records.MUTEX_AT + 64] = _free_mutex(tmp_path)
        copy.write_bytes(fresh)
        again = state(copy)
        assert again in (before, after), number
        found.add(again == after)
        copy.unlink()
    assert found == {False, True}


def _free_mutex(folder: Path) -> bytes:
    with Table.open(folder / "fresh") as fresh:
        return bytes(fresh._memory[records.MUTEX_AT : records.MUTEX_AT + 64])
