"""Which machine carries a run's process, and with it learner and replay: the one with the device.

Pure. The head's own machine is the place called "".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf

from artos.pool.devices import seats
from head.daemon.nodes import Nodes
from head.daemon.roster import Node
from head.daemon.run import Run, Sought
from head.daemon.runs import Runs

_ANY, _ANY_GPU = "pool", ("auto", "cuda")


@dataclass(frozen=True, slots=True)
class Place:
    """A machine that may carry run processes."""

    name: str
    devices: str
    """As in ``--devices``."""
    taken: int = 0
    """Learners of runs there that may use a device."""

    def seats(self, wants: str) -> int:
        """How many learners can use a device at once that is as wanted, if nobody else does."""
        return sum(
            count for device, count in seats(self.devices).items()
            if wants in (_ANY, device) or (wants in _ANY_GPU and device.startswith("cuda:"))
        )  # fmt: skip


def chosen(wants: str, places: Sequence[Place]) -> str:
    """The place for a learner on a device that a user calls ``wants``; the first is the head's.

    It is the head's machine if a device is free there, else the one with the most that are free. If
    none is free anywhere, it is where the fewest learners share one; without any, the head's.
    """
    here, *others = [(place.seats(wants), place) for place in places]
    if here[0] > here[1].taken:
        return here[1].name
    free = max(others, key=lambda each: each[0] - each[1].taken, default=here)
    if free[0] > free[1].taken:
        return free[1].name
    shared = [each for each in (here, *others) if each[0]]
    least = min(shared, key=lambda each: (each[1].taken + 1) / each[0], default=here)
    return least[1].name


class Carriers:
    """Chooses the machine of each run process.

    The head's own has ``devices``, and at most ``at_once`` run processes.
    """

    def __init__(self, runs: Runs, nodes: Nodes, devices: str = "", at_once: float = inf) -> None:
        self._runs, self._nodes, self._devices, self._at_once = runs, nodes, devices, at_once
        self._whys: dict[Sought, str] = {}  # until a node changes
        self._of = (0, False)

    def __repr__(self) -> str:
        return f"<Carriers head={self._devices!r}>"

    def said(self, node: Node, *, shares: bool, switches: bool = False) -> None:
        """Take in whether a node has the head's folder of runs, and may switch accounts."""
        node.shares, node.switches = shares, switches
        self._whys.clear()

    def choose(self, run: Run) -> str:
        """The name of the node that is to carry the run's process; "": the head's machine.

        Not one that has as many as it can carry, or where its process has died twice in a row; nor
        one that had no room for the run while there is another with the device.
        """
        if (sought := run.sought) is None:
            return ""
        places = self._with_device(run, sought, run.without_room) or self._with_device(run, sought)
        return chosen(sought.device, places) if places else ""

    def may_have_room(self, run: Run) -> bool:
        """Whether a machine with the device that a run seeks has not said that it has no room."""
        sought = run.sought
        return sought is not None and bool(self._with_device(run, sought, run.without_room))

    def _with_device(self, run: Run, sought: Sought, but: Collection[str] = ()) -> list[Place]:
        """Where a run may be but there; no places if none that are left have the device."""
        there = [self._runs.by_name[name] for name in self._runs.active - {run.name}]
        died = {run.carrier} - {""} if run.deaths > 1 else set[str]()
        places = self._places(sought, there, {*died, *but})
        return places if any(place.seats(sought.device) for place in places) else []

    def with_room(self) -> list[Sought]:
        """What queued runs seek of which a node could carry one more run."""
        there = [self._runs.by_name[name] for name in self._runs.active]
        seekers = self._runs.seekers
        return [each for each in seekers if chosen(each.device, self._places(each, there))]

    def _places(
        self, sought: Sought, there: Sequence[Run], but: Collection[str] = ()
    ) -> list[Place]:
        """Where a run that seeks this may be, while those are ``there``; first the head's machine.

        That counts as without a device while it has as many runs as it may have, or is left out.
        """
        carried = Counter(each.carrier for each in there)
        taken = Counter[str]()
        for each in there:
            taken[each.carrier] += each.devices
        is_open = carried[""] < self._at_once and "" not in but
        places = [Place("", self._devices if is_open else "", taken[""])]
        for node in self._nodes.with_devices:
            room = carried[node.name] < node.most_carried
            if node.carries(account=sought.account) and node.name not in but and room:
                places.append(Place(node.name, node.devices, taken[node.name]))
        return places

    def why_waits(self, run: Run) -> str:
        """What a run waits for as to its machine; "" if it need not wait."""
        return self.why_wait(run.sought) if run.sought else ""

    def why_wait(self, sought: Sought) -> str:
        """What runs wait for that seek this: a node that has it may be about to come."""
        of = (self._nodes.device_changes, self._nodes.usable > 0)
        if of != self._of:
            self._of = of
            self._whys.clear()
        if sought not in self._whys:
            self._whys[sought] = self._why_wait(*sought)
        return self._whys[sought]

    def _why_wait(self, wants: str, account: bool) -> str:
        what = f"a worker with a device ({wants})"
        if Place("", self._devices).seats(wants):
            return ""
        if not self._nodes.usable:
            return f"{what}: no worker is there; start one with `artos worker --head ...`"
        have = [node for node in self._nodes.with_devices if Place("", node.devices).seats(wants)]
        if any(node.carries(account=account) for node in have):
            return ""
        coming = [node.name for node in have if node.is_coming]
        return f"{what}: {coming[0]} is about to join" if coming else ""
