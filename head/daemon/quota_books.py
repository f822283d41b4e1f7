"""What users and workloads hold of their quotas, and which run must wait or end for that. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf

import msgspec

from artos.protocol.views import QuotaView
from head.daemon.quotas import WORDS, Quota, Quotas
from head.daemon.run import Run, Seconds
from head.daemon.unsaved import Table, Unsaved

_IN_ALL = ("cpu_seconds", "device_seconds")


class Held(msgspec.Struct):
    """What the runs of one user or workload hold now, and have held in all."""

    quota: Quota
    slots: int = 0
    devices: int = 0
    cpu_seconds: float = 0.0
    device_seconds: float = 0.0

    def full(self, *names: str, more: int = 0) -> Iterator[str]:
        """Each of these limits that is reached, or would be passed with ``more``, as text."""
        for name in names:
            limit, held = getattr(self.quota, name), round(getattr(self, name), 1)
            if limit is not None and (held >= limit if not more else held + more > limit):
                has = "has held" if name in _IN_ALL else "holds"
                yield f"{has} {held:,.10g} of {limit:,.10g} {WORDS[name]}"


class QuotaBooks:
    """Books of all users and workloads that have a quota.

    A run that has begun holds at least one slot, and devices if its learners compute on some.
    ``spent`` has the seconds of processes that have ended, by user and workload. After ``see``,
    ``count`` counts again what is held of a run's quotas, and of those that share a run with them.
    """

    def __init__(
        self, quotas: Quotas, spent: Mapping[str, Seconds], unsaved: Unsaved | None = None
    ) -> None:
        self.quotas, self.spent = quotas, dict(spent)
        self._unsaved = Unsaved() if unsaved is None else unsaved
        self._unsaved.put(Table.QUOTAS, "", quotas)
        self.held: dict[str, Held] = {}
        self._slots: dict[str, dict[str, int]] = {}  # by run and node
        self._under: dict[str, dict[str, Run]] = {}  # those that are not over, by quota
        self._seen: set[str] = set()
        self._doubtful: set[str] = set()
        self._counted: dict[str, Run] = {}

    def __bool__(self) -> bool:
        return bool(self.quotas)

    def __repr__(self) -> str:
        return f"<QuotaBooks {' '.join(self.held)}>"

    def see(self, run: Run) -> None:
        """Note a run that is new, is over, or holds more or less than before."""
        for name, _ in self.quotas.of(run.user, run.workload):
            self._seen.add(name)
            under = self._under.setdefault(name, {})
            if not run.over:
                under[run.name] = run
            elif under.pop(run.name, None):
                self._slots.pop(run.name, None)

    def count(self, number: Callable[[Run], int], slots_of: Callable[[str], int]) -> set[str]:
        """Divide the slots under quotas among runs; ``slots_of`` returns the slots of a node.

        Each run has one slot of every node it is on. What is left goes to the runs with the lowest
        ``number``, which were submitted first. Returns the nodes where a run may now hold another
        number of slots.
        """
        # The quotas of runs that were seen, and of all that share one with these; their runs.
        names: set[str] = set()
        limited: dict[str, Run] = {}
        while self._seen:
            names.add(name := self._seen.pop())
            for run in self._under[name].values():
                if run.admitted and run.name not in limited:
                    limited[run.name] = run
                    self._seen |= {*dict(self.quotas.of(run.user, run.workload))} - names
            if not self._under[name]:
                del self._under[name]
        self._doubtful |= names
        for name in names:
            self.held.pop(name, None)
        before = {}
        for run in (runs := sorted(limited.values(), key=number)):
            before[run.name] = self._slots.get(run.name, {})
            self._slots[run.name] = dict.fromkeys(run.places.values(), 1)
            self._book(run, max(1, len(self._slots[run.name])))
        for run in runs:
            for node, actors in Counter(run.places.values()).items():
                more = min(actors, slots_of(node) or 1, self.most_slots(run, actors) + 1) - 1
                self._slots[run.name][node] += more
                for held in self._of(run):
                    held.slots += more
        self._counted |= limited
        return {
            node
            for name, was in before.items()
            for node in was.keys() | self._slots[name].keys()
            if was.get(node) != self._slots[name].get(node)
        }

    def take_doubtful(self) -> list[str]:
        """Runs for which ``why_not_begun`` may have changed since the last call."""
        names, self._doubtful = self._doubtful, set()
        return [run for name in names for run in self._under.get(name, {})]

    def take_counted(self) -> list[str]:
        """Runs for which ``why_ended`` may have changed since the last call."""
        counted, self._counted = self._counted, {}
        return [*counted]

    def admit(self, run: Run) -> None:
        """Book a run that begins."""
        self._book(run, 1)
        self._doubtful |= {name for name, _ in self._named(run)}

    def _book(self, run: Run, slots: int) -> None:
        for held in self._of(run):
            held.slots += slots
            held.devices += run.devices
            held.cpu_seconds += run.held.cpu
            held.device_seconds += run.held.device

    def _of(self, run: Run) -> list[Held]:
        return [held for _, held in self._named(run)]

    def _named(self, run: Run) -> list[tuple[str, Held]]:
        found = []
        for name, quota in self.quotas.of(run.user, run.workload):
            if name not in self.held:
                spent = self.spent.get(name, Seconds())
                self.held[name] = Held(quota, cpu_seconds=spent.cpu, device_seconds=spent.device)
            found.append((name, self.held[name]))
        return found

    def ended(self, run: Run) -> None:
        """Keep what a run's process held in the books, as the process has ended."""
        for name, _ in self.quotas.of(run.user, run.workload):
            self.spent[name] = self.spent.get(name, Seconds()).plus(run.held)
            self._unsaved.put(Table.SPENT, name, self.spent[name])
        run.billed = run.billed.plus(run.held)

    def facts(self) -> dict[str, dict[str, QuotaView]]:
        """What is held of each quota, by user or workload."""
        return {
            whose: {
                name: QuotaView(getattr(held, name), limit)
                for name in Quota.__struct_fields__
                if (limit := getattr(held.quota, name)) is not None
            }
            for whose, held in self.held.items()
        }

    # -- what follows --------------------------------------------------------------------------

    def why_not_begun(self, run: Run) -> str:
        """Why a run may not begin yet; "" if it may."""
        for name, held in self._named(run):
            devices = held.full("devices", more=run.devices) if run.devices else ()
            for words in (*held.full("slots", more=1), *devices, *held.full(*_IN_ALL)):
                return f"a quota: {name} {words}"
        return ""

    def why_ended(self, run: Run) -> str:
        """Why a run has to save and end; "" if it may go on."""
        for name, held in self._named(run):
            for words in held.full(*_IN_ALL):
                return f"{name} {words}: with a larger quota, --resume continues it"
            unasked = run.has_device and not run.asks_device
            if unasked and held.devices > (held.quota.devices or inf):
                (words,) = held.full("devices")
                return f"{name} {words}: submit it with --device, so that it waits for one"
        return ""

    def why_fewer(self, run: Run, slots_of: Callable[[str], int]) -> str:
        """Which quota keeps slots of its nodes from a run's actors; "" if none does."""
        actors = Counter(run.places.values()).items()
        wanted = sum(min(count, slots_of(node) or 1) for node, count in actors)
        if sum(self._slots.get(run.name, {}).values()) >= wanted:
            return ""
        full = (
            f"{name} {words}" for name, held in self._named(run) for words in held.full("slots")
        )
        return next(full, "")

    def most_slots(self, run: Run, wanted: int) -> int:
        """How many of the slots that a run ``wanted``, beyond those it has, it may have."""
        limits = [(held.quota.slots, held.slots) for held in self._of(run)]
        left = [limit - there for limit, there in limits if limit is not None]
        return max(0, min([wanted, *left]))

    def usable(self, wanted: Iterable[tuple[Run, int]]) -> dict[str, int]:
        """How many of the slots that each run ``wanted`` it may have, on any number of nodes.

        Each may keep those that it has; what is left of a quota goes to the first of these runs.
        """
        left, found = dict[str, int](), dict[str, int]()
        for run, slots in wanted:
            begun = run.admitted or run.active
            has = max(1, sum(self._slots.get(run.name, {}).values())) if begun else 0
            free = {
                name: limit - held.slots
                for name, held in self._named(run)
                if (limit := held.quota.slots) is not None
            }
            left = free | left
            more = max(0, min([slots - has, *(left[name] for name in free)]))
            left |= {name: left[name] - more for name in free}
            found[run.name] = min(slots, has + more)
        return found

    def more_nodes(self, run: Run, keeps: Iterable[str], wanted: int) -> int:
        """On how many of the ``wanted`` nodes a run may be, in addition to those it keeps."""
        here = self._slots.get(run.name, {})
        freed = max(1, sum(here.values())) - sum(here.get(node, 0) for node in keeps)
        return min(wanted, self.most_slots(run, wanted) + freed)

    def slots(self, run: str, node: str, most: int) -> int:
        """The slots that a run may hold on a node where it has actors; ``most`` without a quota."""
        return min(most, self._slots.get(run, {}).get(node, most))
