"""CPU slots that several actors of a run share, as each of them mostly waits for answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from workers.host.slots import Slot, Slots, nearest

MOST_SHARES = 4
"""So many actors on one CPU keep it busy while some wait; more only keep each other waiting."""


class SharedSlots:
    """Makes ``shares`` slots of each one of ``source``; implements ``Slots``.

    Those who share CPUs may each use all that the run has by then, of one memory node: what an
    actor waits for computes beside slots, and while it has a CPU the others share what is left.

    A CPU is given back once none of its shares is held. While another run waits for a slot, a CPU
    of which a share came back is handed out no more until then, and its turn is that of the source.
    """

    def __init__(self, source: Slots, shares: int) -> None:
        self._source, self._shares = source, shares
        self._free: dict[Slot, dict[Slot, None]] = {}
        """By the slot of the source those of its shares that nobody holds, in order."""
        self._leaving: set[Slot] = set()

    @property
    def wanted(self) -> bool:
        """Whether another run waits for a slot that this one has."""
        return self._source.wanted

    def arrived(self) -> list[Slot]:
        """All shares of slots that were waited for and came."""
        return [share for slot in self._source.arrived() for share in self._opened(slot)]

    def take(self, wishes: Sequence[Slot | None]) -> list[Slot]:
        """A CPU for each wish as far as there are, and then shares of those that are there."""
        for slot in self._source.take([wish and _whole(wish) for wish in wishes]):
            self._free[slot] = dict.fromkeys(self._opened(slot))
        found = []
        for wish in wishes:
            open_ = {slot: free for slot, free in self._free.items() if slot not in self._leaving}
            emptiest = max(open_.values(), key=len, default={})
            last = wish and replace(wish, beside=())
            kept = last is not None and last in open_.get(_whole(last), {})
            if (share := last if kept else nearest(emptiest, last)) is not None:
                found.append(self._held(share))
        return found

    def again(self, slot: Slot) -> Slot | None:
        """The same share; if another run waits, none until the source says whose turn it is."""
        whole, slot = _whole(slot), replace(slot, beside=())
        self._free.setdefault(whole, {})[slot] = None
        if len(self._free[whole]) < self._shares:
            if self._source.wanted:
                self._leaving.add(whole)
                return None
            return self._held(slot)
        del self._free[whole]
        self._leaving.discard(whole)
        if (turn := self._source.again(whole)) is None:
            return None
        self._free[turn] = dict.fromkeys(self._opened(turn))
        return self._held(next(iter(self._free[turn])))

    def give_back(self, slot: Slot) -> None:
        """Count the share as free; the last of a CPU gives that back."""
        whole = _whole(slot)
        shares = self._free.setdefault(whole, {})
        shares[replace(slot, beside=())] = None
        if len(shares) == self._shares:
            del self._free[whole]
            self._leaving.discard(whole)
            self._source.give_back(whole)

    def close(self) -> None:
        """Give everything back."""
        self._source.close()

    def _opened(self, slot: Slot) -> list[Slot]:
        return [replace(slot, share=number) for number in range(self._shares)]

    def _held(self, share: Slot) -> Slot:
        del self._free[_whole(share)][share]
        others = (slot for slot in self._free if slot not in self._leaving)
        beside = {slot.cpu for slot in others if slot.node == share.node} - {share.cpu}
        return replace(share, beside=tuple(sorted(beside)))


def _whole(share: Slot) -> Slot:
    return replace(share, share=0, beside=())
