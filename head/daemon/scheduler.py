"""The queue of runs and the places of their actors: takes events, returns effects. Pure.

``turn`` compares the wanted state (queue, nodes, places) with the last orders and returns the
difference as effects, so it may be called at any time and twice in a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from artos.errors import Refused
from artos.exit_status import OUTCOMES, ExitStatus
from artos.protocol.control import Assign, ExecutorEnded, Hello, Placed, RunNews, RunUp
from artos.protocol.message import Message
from artos.run_state import QUEUED, RUNNING, STARTING, STOPPING
from head.daemon.held_slots import HeldSlots
from head.daemon.quota_books import QuotaBooks
from head.daemon.quotas import Quotas
from head.daemon.roster import Executors, Node, Room, place
from head.daemon.run import Run, Seconds
from head.daemon.run_queue import QueueState, RunQueue

MOST_IN_A_ROW = 3
"""After so many deaths of its process without progress a run is not started again."""
_MOVE_SECONDS = 60.0
"""How long the actors of a leaving node may take to end their rounds."""
_MOST_OVER = 200
_NO_WORKER = "a worker: none is there; start one with `artos worker --head ...`"


@dataclass(frozen=True, slots=True)
class Begin:
    """Start the run's process."""

    run: Run


@dataclass(frozen=True, slots=True)
class Tell:
    """Send the run's process a message."""

    run: Run
    message: Message


@dataclass(frozen=True, slots=True)
class Finish:
    """Have the run save and end."""

    run: Run


@dataclass(frozen=True, slots=True)
class Order:
    """Send a worker daemon a message."""

    node: Node
    message: Message


Effect = Begin | Tell | Finish | Order


@dataclass(slots=True)
class _Moves:
    """What the next ``Placed`` to a run says: which nodes are gone, and why actors move."""

    gone: dict[str, None] = field(default_factory=dict)
    why: str = ""


class Scheduler:
    """All runs of a cluster, in the order they were submitted.

    ``queue`` and ``spent`` are what an earlier head saved of it, ``now`` the time.
    """

    def __init__(
        self, runs: Iterable[Run] = (), queue: QueueState | None = None, now: float = 0.0,
        quotas: Quotas | None = None, spent: Mapping[str, Seconds] | None = None,
    ) -> None:  # fmt: skip
        self.runs = {run.name: run for run in runs}
        self._queue = RunQueue(queue, now)
        self.books = QuotaBooks(quotas or Quotas(), spent or {})
        self._finishing: dict[str, int] = {}  # epochs of runs that were told to end
        self.executors = Executors()
        self._moves: dict[str, _Moves] = {}
        self._actors: dict[str, dict[str, int]] = {}  # by node and run
        self._held = HeldSlots()
        for run in self.runs.values():
            run.admitted |= run.active  # also if an earlier version saved it
            self._settle(run, run.places)

    def __repr__(self) -> str:
        counts = Counter(run.state for run in self.runs.values())
        return f"<Scheduler {' '.join(f'{state}={n}' for state, n in counts.items())}>"

    def actors_on(self, node: str) -> dict[str, int]:
        """How many actors of each run live on a node."""
        return self._actors.get(node, {})

    # -- events of runs ------------------------------------------------------------------------

    def submit(self, run: Run) -> None:
        """Put a new run, or one that is over and to be resumed, at the end of the queue.

        Raises:
            Refused: a run of that name is not over.
        """
        old = self.runs.get(run.name)
        if old is not None and not old.over:
            raise Refused([f"run {run.name} is {old.state}: choose another --run-dir"])
        if old is not None:
            run.epoch, run.reached = old.epoch, old.reached
            del self.runs[run.name]
        self.runs[run.name] = run
        over = [name for name, each in self.runs.items() if each.over]
        for name in over[:-_MOST_OVER]:
            del self.runs[name]

    def run_up(self, up: RunUp) -> bool:
        """A run process is up; False if the run or its epoch is not the one we started."""
        run = self.runs.get(up.run)
        if run is None or run.epoch != up.epoch or not run.active:
            return False
        run.is_up(up)
        self._moves[up.run] = _Moves(why="the run is up")
        self.executors.forget_failures(up.run)
        return True

    def run_news(self, news: RunNews) -> bool:
        """A run reports its progress; True if more changed than what is shown to users."""
        run = self.runs.get(news.run)
        if run is None or not run.active:
            return False
        before = (run.state, run.outcome, run.deaths)
        run.facts, run.waits_for = news.facts or run.facts, news.waits_for
        steps = int(run.facts.get("steps") or 0)
        if steps > run.reached:
            run.reached, run.deaths = steps, 0
        if news.state in OUTCOMES:
            run.outcome, run.why = news.state, news.waits_for or run.why
        if news.state == STOPPING or run.outcome:
            run.state = STOPPING
        return before != (run.state, run.outcome, run.deaths)

    def run_ended(self, name: str, status: int | None, words: str) -> None:
        """A run's process ended with ``status``: negative for a signal, None if unknown.

        A run whose process was killed goes on from its last checkpoint, unless it died too often.
        """
        run = self.runs[name]
        self.books.ended(run)
        self._finishing.pop(name, None)
        stopping, run.up = run.state == STOPPING, None
        if run.outcome or (status is not None and status >= 0):
            outcome = run.outcome or ExitStatus(status or 0).outcome
            as_asked = {"done": "", "interrupted": run.why}
            self._over(run, outcome, as_asked.get(outcome, run.why or words))
        elif stopping:
            self._over(run, "interrupted", f"it died while it was stopping: {words}")
        elif run.deaths >= MOST_IN_A_ROW:
            self._over(run, "failed", f"its process died {run.deaths + 1} times in a row: {words}")
        else:
            run.deaths += 1
            run.facts = run.facts | {"usage": {}}  # the next process counts from 0
            run.state, run.resume, run.waits_for = QUEUED, True, f"another start: {words}"

    def stop(self, run: Run) -> None:
        """The user wants the run to finish and save."""
        if run.state == QUEUED:
            self._over(run, "interrupted", "it was stopped while it waited in the queue")
        elif run.active:
            run.state = STOPPING

    def _over(self, run: Run, outcome: str, why: str) -> None:
        self._settle(run, {})
        run.end(outcome, why)
        self._moves.pop(run.name, None)
        self.executors.forget_failures(run.name)

    # -- events of nodes -----------------------------------------------------------------------

    def joined(self, node: Node, hello: Hello) -> list[Effect]:
        """A worker daemon is there (again): have it close executors that are not wanted."""
        self._held.changed(node.name)  # it may have another number of slots
        wanted = {run: self.runs[run].epoch for run in self.actors_on(node.name)}
        return [Order(node, m) for m in self.executors.joined(node.name, hello.runs, wanted)]

    def gone(self, nodes: Collection[str], why: str) -> None:
        """These nodes are gone for good: their actors lose their places."""
        for name in {run for node in nodes for run in self.actors_on(node)}:
            run = self.runs[name]
            moves = self._moves.setdefault(name, _Moves())
            moves.gone |= dict.fromkeys(node for node in nodes if name in self.actors_on(node))
            moves.why = why
            self._settle(run, {a: node for a, node in run.places.items() if node not in nodes})
        self.executors.gone(nodes)

    def leaves(self, node: str, why: str) -> None:
        """A node is to have no actors any more; rows that they have committed are still shipped."""
        for run in self.actors_on(node):
            self._moves.setdefault(run, _Moves()).why = why

    def executor_ended(self, node: Node, ended: ExecutorEnded, now: float) -> None:
        """An executor is gone. If it ended by itself it is opened again, but not for ever."""
        self.executors.ended(node.name, ended, now)
        if why := self.executors.why_given_up(ended.run, node.name):
            self._moves.setdefault(ended.run, _Moves()).why = why

    # -- decisions -----------------------------------------------------------------------------

    def turn(self, nodes: Sequence[Node], now: float, *, begin: bool = True) -> list[Effect]:
        """The effects that bring runs and nodes to the wanted state, in order.

        ``begin`` False: queued runs stay in the queue.
        """
        usable = [node for node in nodes if node.usable]
        self._queue.see(self.runs, now)
        self._count(nodes)
        effects: list[Effect] = []
        for run in self.runs.values():
            if run.up is not None and (told := self._place(run, run.up.actors, usable)):
                effects += told
                self._count(nodes)
        effects += self._begin(usable) if begin else []  # with what those that are up leave
        effects += self._finish()
        for node in nodes:
            if node.alive and node.peer:
                effects += self._order(node, now)
        self._queue.charge(self._held.by_run(nodes, self._demands_on))
        return effects

    def _count(self, nodes: Sequence[Node]) -> None:
        if self.books:
            slots = {node.name: node.slots for node in nodes}
            for node in self.books.count(self.runs.values(), slots):
                self._held.changed(node)

    def _demands_on(self, node: str) -> dict[str, int]:
        """The most slots that each run could use on a node."""
        return {run: self.books.slots(run, node, n) for run, n in self.actors_on(node).items()}

    def _begin(self, usable: Sequence[Node]) -> list[Begin]:
        # Who was killed has its place still, and does not wait for another.
        again = [run for run in self.runs.values() if run.state == QUEUED and run.admitted]
        begun = [self._begun(run) for run in again]
        if self._queue.waits:
            begun += [self._begun(self.runs[name]) for name in self._next(self._room(usable))]
        return begun

    def _next(self, room: int) -> list[str]:
        """The runs whose turn it is; those beyond a quota are in nobody's way."""
        if not self.books:
            return self._queue.next(room)
        names: list[str] = []
        while True:  # one by one, as each may take the last of a quota from the next
            self._queue.hold_back(lambda run: bool(self.books.why_not_begun(self.runs[run.name])))
            begins = self._queue.next(min(1, room - len(names)))
            if not begins:
                return names
            names += begins
            self.books.admit(self.runs[begins[0]])

    def _finish(self) -> Iterator[Finish]:
        """Runs that have used up a quota save and end. Told once: told twice, they end at once."""
        for run in self.runs.values() if self.books else ():
            told = self._finishing.get(run.name) == run.epoch
            if run.state == RUNNING and not told and (why := self.books.why_ended(run)):
                self._finishing[run.name], run.why = run.epoch, why
                yield Finish(run)

    def _room(self, usable: Sequence[Node]) -> int:
        """How many more runs may begin."""
        # Without any worker one run may begin: its faults then show before a worker is there.
        unplaced = sum(run.active and not run.places for run in self.runs.values())
        free = sum(max(0, node.slots - len(self.actors_on(node.name))) for node in usable)
        active = sum(run.active for run in self.runs.values())
        return free - unplaced if usable else 1 - active

    def _begun(self, run: Run) -> Begin:
        run.state, run.epoch = STARTING, run.epoch + 1
        run.outcome = run.why = run.waits_for = ""
        return Begin(run)

    def queue_state(self) -> QueueState:
        """What a restarted head must know of the queue, beside the runs."""
        return self._queue.state()

    def _place(self, run: Run, actors: int, usable: Sequence[Node]) -> list[Tell]:
        moves = self._moves.pop(run.name, None)
        if moves is None and len(run.places) == actors:
            return []  # every event that takes a place away is noted in ``_moves``
        places = place(actors, run.places, self._rooms(run, usable), run.placement)
        if moves is None and places == run.places:
            return []
        self._settle(run, places)
        moves = moves or _Moves(why="there is room now")
        return [Tell(run, Placed(places, tuple(moves.gone), moves.why))]

    def _rooms(self, run: Run, usable: Iterable[Node]) -> list[Room]:
        """Nodes that a run may use: those it is on, and those with a slot for one more run.

        Under a quota they are at most as many as the run may have slots: the emptiest of them.
        """
        rooms = []
        for node in usable:
            there = self.actors_on(node.name)
            own = there.get(run.name, 0)
            if (own or len(there) < node.slots) and not self.executors.why_given_up(
                run.name, node.name
            ):
                rooms.append(Room(node.name, node.slots, sum(there.values()) - own))
        return self._within_quota(run, rooms) if self.books else rooms

    def _within_quota(self, run: Run, rooms: Sequence[Room]) -> list[Room]:
        keeps = {room.name for room in rooms} & {*run.places.values()}
        most = len(keeps) + self.books.more_nodes(run, keeps, len(rooms))
        best = sorted(rooms, key=lambda room: (room.name not in keeps, room.taken - room.slots))
        chosen = {room.name for room in best[:most]}
        return [room for room in rooms if room.name in chosen]

    def _settle(self, run: Run, places: dict[int, str]) -> None:
        for node in set(run.places.values()):
            self._actors.get(node, {}).pop(run.name, None)
            self._held.changed(node)
        for node, count in Counter(places.values()).items():
            self._actors.setdefault(node, {})[run.name] = count
            self._held.changed(node)
        run.places = places

    def _order(self, node: Node, now: float) -> list[Order]:
        def grace(name: str) -> float:
            run = self.runs.get(name)
            return _MOVE_SECONDS if node.leaves and run is not None and run.up else 0.0

        orders = self.executors.orders(node.name, self._wanted(node), now, grace)
        return [Order(node, message) for message in orders]

    def _wanted(self, node: Node) -> dict[str, Assign]:
        """The executors that a node should have."""
        wanted = {}
        for name in self.actors_on(node.name):
            run, slots = self.runs[name], self.books.slots(name, node.name, node.slots)
            if (up := run.up) is not None:
                wanted[name] = Assign(
                    name, run.epoch, up.plan, up.folder, run.archive, up.steering, up.experience,
                    slots,
                )  # fmt: skip
        return wanted

    # -- what is shown -------------------------------------------------------------------------

    def waits_for(self, run: Run, nodes: Sequence[Node]) -> str:
        """What a run waits for, in words; "" if it waits for nothing."""
        usable = [node for node in nodes if node.usable]
        if run.up is not None and len(run.places) < run.up.actors:
            return self._wait_for_a_place(run, usable)
        if run.state == QUEUED and not run.waits_for:
            if usable and (why := self.books.why_not_begun(run)):
                return why
            active = sum(other.active for other in self.runs.values())
            slots = sum(node.slots for node in usable)
            before = self._queue.words(run)
            words = f"a slot: {active} runs share {slots}{before and '; before it: '}{before}"
            return words if usable else _NO_WORKER
        if run.state == STARTING and not run.waits_for:
            return "its registration" if usable else f"its registration, then {_NO_WORKER}"
        return run.waits_for

    def _wait_for_a_place(self, run: Run, usable: Sequence[Node]) -> str:
        failed = [self.executors.why_given_up(run.name, node.name) for node in usable]
        if any(failed):
            return f"a worker that can run it: {'; '.join(filter(None, failed))}"
        return "a worker with a free slot" if usable else _NO_WORKER
