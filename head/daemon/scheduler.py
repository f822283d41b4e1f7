"""The queue of runs and the places of their actors: takes events, returns effects. Pure.

``turn`` compares the wanted state (queue, nodes, places) with the last orders and returns the
difference as effects, so it may be called at any time and twice in a row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from math import inf

from msgspec import UNSET

from artos.errors import Refused
from artos.protocol.control import ExecutorEnded, FinishRun, Hello, Placed, RunNews, RunUp
from artos.protocol.run_state import QUEUED, RUNNING, STOPPING
from artos.runs.exit_status import OUTCOMES, ExitStatus
from head.daemon.admission import Admission
from head.daemon.carriers import Carriers
from head.daemon.effects import Begin, Effect, Finish, Order, Tell
from head.daemon.endings import Endings
from head.daemon.executors import Executors
from head.daemon.held_slots import HeldSlots
from head.daemon.moves import Moves
from head.daemon.node_orders import NodeOrders
from head.daemon.nodes import Nodes
from head.daemon.quota_books import QuotaBooks
from head.daemon.quotas import Quotas
from head.daemon.rooms import Rooms
from head.daemon.roster import Node, place, relieved
from head.daemon.run import Run, Seconds
from head.daemon.run_queue import QueueState, RunQueue
from head.daemon.runs import Runs
from head.daemon.starts import Starts
from head.daemon.unsaved import Unsaved
from head.daemon.waits import Waits

MOST_IN_A_ROW = 3
"""After so many deaths of its process without progress a run is not started again."""
_NO_ROOM = ExitStatus.NO_ROOM.outcome
_ROOM_SECONDS = 60.0
"""After so long it is looked whether there is room for a run that the head's memory had none for.

Others than runs of this head may have left it.
"""
_IN_VAIN = (ExitStatus.REFUSED.outcome, ExitStatus.FAILED.outcome)


class Scheduler:
    """All runs of a cluster, in the order they were submitted, and its nodes.

    ``queue`` and ``spent`` are what an earlier head saved of them, ``now`` is the time, and
    ``at_once`` how many runs may have a process on the head's machine, which has ``devices``. What
    is to be saved next is named in ``unsaved``.

    A turn looks only at runs and nodes that an event has named, so that a decision takes as long
    with ten thousand nodes as with ten, except for a logarithm. Only runs that share a quota are
    looked at together.
    """

    def __init__(
        self, runs: Iterable[Run] = (), queue: QueueState | None = None, now: float = 0.0,
        quotas: Quotas | None = None, spent: Mapping[str, Seconds] | None = None,
        unsaved: Unsaved | None = None, at_once: float = inf, devices: str = "",
    ) -> None:  # fmt: skip
        self.unsaved = unsaved = Unsaved() if unsaved is None else unsaved
        accounts = queue.accounts if queue else ()
        self.all_runs, self._nodes = Runs((each.workload for each in accounts), unsaved), Nodes()
        self._queue = RunQueue(queue, now, unsaved)
        self.books = QuotaBooks(quotas or Quotas(), spent or {}, unsaved)
        self._endings, self.starts = Endings(), Starts()
        self.executors = Executors()
        self._rooms = Rooms(self._nodes, self.executors, self.books, self.runs)
        self.carriers = Carriers(self.all_runs, self._nodes, devices, at_once)
        self.waits = Waits(
            self.all_runs,
            self._nodes,
            self._queue,
            self.books,
            self.executors,
            self._rooms,
            self.carriers,
            at_once,
        )
        self._moves: dict[str, Moves] = {}
        self._held, self._look_for_room_at = HeldSlots(), now + _ROOM_SECONDS
        self._admission = Admission(
            self.all_runs, self._nodes, self._queue, self.books, self.carriers, at_once
        )
        self._node_orders = NodeOrders(self.all_runs, self._nodes, self.executors, self.books)
        for run in runs:
            run.admitted |= run.active  # also if an earlier version saved it
            self.all_runs.add(run)
            self._settle(run, run.places)

    def __repr__(self) -> str:
        return f"<Scheduler {self.all_runs!r} {self._nodes!r}>"

    @property
    def runs(self) -> Mapping[str, Run]:
        """All runs by name; they change only through the methods here."""
        return self.all_runs.by_name

    def actors_on(self, node: str) -> Mapping[str, int]:
        """How many actors of each run live on a node."""
        return self._nodes.actors_on(node)

    # -- events of runs ------------------------------------------------------------------------

    def submit(self, run: Run) -> None:
        """Put a new run, or one that is over and to be resumed, at the end of the queue.

        Raises:
            Refused: a run of that name is not over.
        """
        old = self.runs.get(run.name)
        if old is not None and not old.over:
            then = "wait until it is over, or stop it" if run.resume else "choose another --run-dir"
            raise Refused([f"run {run.name} is {old.state}: {then}"])
        if old is not None:  # old executors are told apart by their epochs
            run.epoch = run.never_began = old.epoch
        if old is not None and run.resume:
            run.never_began, run.reached, run.billed = old.never_began, old.reached, old.billed
            run.facts, run.was = old.facts, old.outcome if old.accepted else old.was
        self.all_runs.add(run)

    def withdraw(self, run: Run, old: Run | None) -> None:
        """Undo ``submit`` of a run, which may have replaced an ``old`` one of the same name."""
        self.all_runs.withdraw(run)
        if old is not None:
            self.all_runs.add(old)

    def restore(self, run: Run, before: Run) -> None:
        """Undo what was just changed of a run: it is again as it was ``before``."""
        for name in run.__struct_fields__:
            if name != "places":
                setattr(run, name, getattr(before, name))
        self._endings.take_back(run.name)
        self._settle(run, before.places)

    def scaled(self, run: Run, actors: int) -> None:
        """Record that a user had the run go on with another number of actors."""
        run.by_hand = actors
        self._changed(run)

    def run_up(self, up: RunUp) -> bool:
        """Take in that a run process is up; False if it is not of the epoch that was begun last."""
        run = self.runs.get(up.run)
        if run is None or run.epoch != up.epoch or not run.active:
            return False
        run.is_up(up)
        self._changed(run)
        self._moves[up.run] = Moves(why="the run is up")
        self.executors.forget_failures(up.run)
        return True

    def run_news(self, news: RunNews, now: float) -> bool:
        """Take in a run's progress; True if more changed than what is shown to users.

        An executor that its run has waited for too long is taken for failed.
        """
        run = self.runs.get(news.run)
        if run is None or not run.active:
            return False
        before = (run.state, run.outcome, run.deaths, run.goes_on)
        if news.device and not (run.accepted or run.carrier):
            run.device = news.device
            if self.carriers.choose(run):
                run.goes_on = True
                self._endings.tell(run)
        run.waits_for = news.waits_for
        if news.facts:
            run.reported(news.facts)
        emptied = self.executors.emptied(run.name, run.facts.nodes or {}) if run.facts else []
        self._node_orders.recheck(emptied)
        heard = news.facts.nodes if news.facts and news.state == RUNNING else UNSET
        for node in self._nodes.in_order(() if heard is UNSET else {*run.places.values()}):
            up = heard is not UNSET and node.name in heard
            if ended := self.executors.heard_of(node.name, run.name, up=up, now=now):
                self.executor_ended(node, ended, now)
        steps = run.facts.steps if run.facts else 0
        if steps > run.reached:
            run.reached, run.deaths = steps, 0
        if news.state in _IN_VAIN and run.begins_again:
            run.why = news.waits_for
        elif news.state in OUTCOMES:
            run.outcome, run.why = news.state, news.waits_for or run.why
        if news.state == STOPPING or run.outcome:
            run.state = STOPPING
        to_end = run.state == STOPPING or run.goes_on
        untold = to_end and news.state == RUNNING and not self._endings.was_told(run)
        if untold:  # an earlier head saved that the run is to end, and was killed before it told it
            self._endings.tell(run)
        self._changed(run)
        return (
            untold or bool(emptied) or before != (run.state, run.outcome, run.deaths, run.goes_on)
        )

    def run_ended(self, name: str, status: int | None, words: str) -> None:
        """Take in that a run's process ended with ``status``: negative for a signal, None: unknown.

        A run whose process was killed, or could not begin again, continues from its last
        checkpoint, unless it died too often. One that only saved for the next head waits for it.
        """
        run = self.runs[name]
        self.books.ended(run)
        told = self._endings.was_told(run)
        self._endings.forget(name)
        outcome = run.outcome
        if not outcome and status is not None and status >= 0:
            outcome = ExitStatus(status).outcome
        if run.begins_again:
            outcome, words = "" if outcome in _IN_VAIN else outcome, run.why or words
        stopping, run.up = run.state == STOPPING, None
        no_room = outcome == _NO_ROOM
        outcome = "" if no_room else outcome
        if not no_room:
            self.all_runs.try_again()  # it may have left room
        if no_room and not told:
            where = f"node {run.carrier}'s" if run.carrier else "the head's"
            run.again(f"room in {where} memory: {run.why or words}")
            run.without_room += (run.carrier,)
            run.no_room = not self.carriers.may_have_room(run)
            if run.no_room:  # all were asked, and will be asked anew
                run.without_room = ()
            run.never_began += 1
        elif run.goes_on and outcome not in ("done", "failed"):
            there = run.carrier or self.carriers.choose(run)
            run.again("a machine to go on with" if there else "the next start of the head")
        elif outcome:
            as_asked = {"done": "", "interrupted": run.why}
            why = as_asked.get(outcome, run.why or words)
            if run.was and not run.accepted and outcome == ExitStatus.REFUSED.outcome:
                why += f"; before that, it was {run.was} after {run.reached:,} steps"
            self._over(run, outcome, why)
        elif stopping:
            self._over(run, "interrupted", f"it died while it was stopping: {words}")
        elif run.deaths >= MOST_IN_A_ROW:
            self._over(run, "failed", f"its process died {run.deaths + 1} times in a row: {words}")
        else:
            run.deaths += 1
            run.again(f"another start: {words}")
        self._changed(run)

    def stop(self, run: Run) -> None:
        """Have a run finish and save, as its user wants; it ends at once if they want it again."""
        if run.stop_asked and run.active:
            self._endings.tell(run)
        run.stop_asked = run.active
        self.stop_all([run.name])

    def stop_all(self, names: Iterable[str], *, later: bool = False) -> None:
        """Have these runs finish and save, as head or node end; none of them is told twice.

        ``later``: they go on with the next head, or on another machine.
        """
        for run in self.all_runs.in_order(names):
            if later and self._endings.is_under_way(run):
                continue
            run.goes_on = later and run.active
            if run.state == QUEUED:
                self._over(run, "interrupted", "it was stopped while it waited in the queue")
            elif run.active:
                if not self._endings.is_under_way(run):
                    self._endings.tell(run)
                run.state = run.state if later else STOPPING
            self._changed(run)

    def _changed(self, run: Run) -> None:
        self.all_runs.changed(run)
        self._node_orders.recheck([*run.places.values(), run.carrier])

    def _over(self, run: Run, outcome: str, why: str) -> None:
        self._settle(run, {})
        run.end(outcome, why)
        self._moves.pop(run.name, None)
        self.executors.forget_failures(run.name)

    # -- events of nodes -----------------------------------------------------------------------

    def expect(self, nodes: Iterable[Node]) -> None:
        """Add nodes that are there, or that an earlier head knew and that may come back."""
        for node in nodes:
            self._nodes.put(node)
            self._look_at(node.name)

    def joined(self, node: Node, hello: Hello) -> list[Effect]:
        """Have a worker daemon that is there (again) close the executors that are not wanted.

        What it was told may be lost: runs that it carries and that are to end are told again.
        """
        was_gone = self._nodes.get(node.name) is None  # then its runs have given up what is there
        self.expect([node])
        for run in self.actors_on(node.name):
            if not node.has(self.runs[run].where):
                self._moves.setdefault(run, Moves()).why = f"{node.name} has other labels now"
        self._relieve_others(node)
        wanted = {run: self.runs[run].epoch for run in self.actors_on(node.name)}
        known = [self.runs[name] for name in hello.runs if name in self.runs and not was_gone]
        up = {each.name: each.epoch for each in known if each.up}
        orders = [*self.executors.joined(node.name, hello.runs, wanted, up)]
        for each in self.all_runs.in_order(self.all_runs.carried):
            if each.carrier == node.name and self._endings.has_told(each):
                orders.append(FinishRun(each.name, each.epoch, again=True))
        return [Order(node, message) for message in orders]

    def _relieve_others(self, node: Node) -> None:
        """Have actors that share slots elsewhere move to this node, which has free ones."""
        if node.usable and not self.all_runs.some_wait:  # a run that waits has the room first
            # It takes at most so many actors off others that each of these has one too many.
            for other in self._nodes.crowded(node.slots):
                for run in self.actors_on(other):
                    self._moves.setdefault(run, Moves()).relief = True

    def gone(self, nodes: Collection[str], why: str) -> None:
        """Take their places from the actors of these nodes, which are gone for good.

        Runs that they carried have lost their process.
        """
        for run in self.all_runs.in_order(self.all_runs.carried):
            if run.carrier in nodes:
                self.run_ended(run.name, None, f"node {run.carrier}, which carried it: {why}")
        active, open_on = self.all_runs.active, self.executors.open_on
        # Actors that have a place elsewhere may not have left yet: their executor is open.
        lost = {n: self.actors_on(n).keys() | (active & open_on(n)) for n in nodes}
        for run in [self.runs[name] for name in {*chain.from_iterable(lost.values())}]:
            moves = self._moves.setdefault(run.name, Moves())
            moves.gone |= dict.fromkeys(node for node in nodes if run.name in lost[node])
            moves.why = why
            self._settle(run, {a: node for a, node in run.places.items() if node not in nodes})
        for node in nodes:
            self._nodes.drop(node)
        self.executors.gone(nodes)

    def leaves(self, node: str, why: str) -> None:
        """Move all actors off a node; rows that they have committed are still shipped.

        Runs that it carries save, and go on elsewhere. ``why`` is "" if the node may have actors
        after all.
        """
        self._nodes.changed(node)
        self._look_at(node)
        for run in self.actors_on(node) if why else ():
            self._moves.setdefault(run, Moves()).why = why
        carried = self.all_runs.in_order(self.all_runs.carried if why else ())
        self.stop_all([run.name for run in carried if run.carrier == node], later=True)
        if not why and (back := self._nodes.get(node)):
            self._relieve_others(back)

    def executor_ended(self, node: Node, ended: ExecutorEnded, now: float) -> None:
        """Take in that an executor is gone; if it ended by itself it is opened again.

        A run whose actors were on the way elsewhere, or are now, hears of no other: it is told.
        """
        self.executors.ended(node.name, ended, now)
        self._look_at(node.name)
        run = self.runs.get(ended.run)
        if not ended.why or run is None or run.up is None or run.epoch != ended.epoch:
            return
        why = self.executors.why_given_up(run.name, node.name)  # maybe it had too little memory
        moves = self._moves.setdefault(run.name, Moves())
        moves.ended[node.name] = f"its executor on {node.name} ended: {ended.why}"
        if why or run.name not in self.actors_on(node.name):
            moves.gone[node.name] = None
            moves.why = why or moves.ended[node.name]

    def _look_at(self, node: str) -> None:
        """Have a node's orders and slots compared again."""
        self._node_orders.recheck([node])
        self._held.changed(node)
        for run in self.actors_on(node):
            self.all_runs.changed(self.runs[run])

    # -- decisions -----------------------------------------------------------------------------

    def turn(self, now: float, *, hold: str = "") -> list[Effect]:
        """The effects that bring runs and nodes to the wanted state, in order.

        ``hold``: queued runs stay in the queue; this is what they are said to wait for.
        """
        self.waits.hold = hold
        if not self.all_runs.no_room or now >= self._look_for_room_at:
            self._look_for_room_at = now + _ROOM_SECONDS
            self.all_runs.try_again()
        self.all_runs.tidy()
        changed = self.all_runs.take_changed()
        self._queue.see(changed, self.all_runs.take_left(), now)
        self._count(changed)
        self.starts.see(changed, now)
        if hold:
            self.starts.count_anew(now)
        effects: list[Effect] = [*self.starts.end_overdue(self.all_runs, now)]
        # Runs that are up come first; others begin with the room that these leave.
        moved = [name for name in self._moves if self.runs[name].up is not None]
        # Twice: a run that moved may have left room to one that was looked at before it.
        for run in chain.from_iterable(
            self.all_runs.to_place(names, lambda: self._nodes.free > 0) for names in (moved, ())
        ):
            assert run.up is not None
            actors, moves = run.up.actors, self._moves.pop(run.name, None)
            rooms = self._rooms.of(run, actors)
            places = place(actors, run.places, rooms, run.placement)
            if moves is not None and moves.relief:
                places = relieved(places, rooms)
            if moves is not None:
                moves.settle({*places.values()})
            if places == run.places and not (moves and moves.must_be_told):
                continue
            self._settle(run, places)
            self._count([run])
            moves = moves or Moves()
            relief = moves.relief and not moves.must_be_told
            moves.why = moves.why or "there is room now"
            placed = Placed(places, tuple(moves.gone), moves.why, relief, run.few_slots)
            effects.append(Tell(run, placed))
        if not hold:
            for run in self._admission.take_runs():
                self._node_orders.recheck(run.places.values())
                effects.append(Begin(run))
        counted = [name for name in self.books.take_counted() if name in self.runs]
        for run in self.all_runs.in_order(counted):
            told = self._endings.was_told(run)
            if run.state == RUNNING and not told and (why := self.books.why_ended(run)):
                run.why, run.goes_on = why, False
                self._endings.tell(run)
                self.all_runs.changed(run)
            if run.up and (few := self.books.why_fewer(run, self._nodes.slots_of)) != run.few_slots:
                run.few_slots = few
                self.all_runs.changed(run)
                effects.append(Tell(run, Placed(run.places, quota=few)))
        effects += [Finish(run) for run in self._endings.take_due() if run.active]
        effects += self._node_orders.take_orders(now)

        def most_slots(node: str) -> dict[str, int]:
            return {run: self.books.slots(run, node, n) for run, n in self.actors_on(node).items()}

        self._queue.charge(
            self._held.take(self._nodes.slots_of, most_slots, lambda run: self.runs[run].weight)
        )
        return effects

    def _count(self, changed: Iterable[Run]) -> None:
        """Count again what is held of the quotas of runs that have changed."""
        if self.books:
            for run in changed:
                self.books.see(run)
            for node in self.books.count(self.all_runs.number, self._nodes.slots_of):
                self._node_orders.recheck([node])
                self._held.changed(node)

    def _settle(self, run: Run, places: dict[int, str]) -> None:
        touched = self._nodes.settle(run.name, places, {*run.places.values()})
        run.places = places
        for node in touched:
            self._held.changed(node)
        self._node_orders.recheck(touched)
        self.all_runs.changed(run)
