"""Whatever happens to nodes and actors in whatever order: what executors hear makes sense."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from remote_head import ONE, STEPS, TWO, Head, sample

from artos.protocol import control, steering
from artos.protocol.invocations import Done
from artos.specs.members import Member
from artos.system.exit_report import ExitReport

NODES = st.sampled_from(("w1", "w2"))
MEMBERS = st.sampled_from((ONE, TWO))
SELDOM = st.integers(0, 3).map(lambda n: n == 0)


class Places(RuleBasedStateMachine):
    """Plays the head daemon, the executors, the replay buffer and the coordinator.

    ``lodged`` has the calls of members by where an executor keeps them, ``open`` those that the
    coordinator has no answer to; ``prepared`` members get more. Of ``dead`` ones an executor has
    said so, of ``down`` ones the coordinator knows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.lodged: dict[tuple[str, Member], list[int]] = {}
        self.open: dict[Member, list[int]] = {ONE: [], TWO: []}
        self.prepared: set[Member] = set()
        self.down: set[Member] = set()
        self.dead: set[tuple[str, Member]] = set()
        self.asked: list[tuple[str, int]] = []
        self.taking: list[tuple[str, int]] = []
        self.firing = 0
        self.head = Head(self.folder)
        self.head.adopts = False
        self.adopt()
        for node in ("w1", "w2"):
            self.site_comes(node, anew=False)
            self.site_up(node)
        self.head.place({0: "w1", 1: "w2"})
        self.adopt()
        self.prepare(ONE)
        self.prepare(TWO)

    def teardown(self) -> None:
        self.head.memories.close()
        self.head.bundles.close()
        shutil.rmtree(self.folder)

    # -- the coordinator -----------------------------------------------------------------------

    @rule(member=MEMBERS)
    def prepare(self, member: Member) -> None:
        if member not in self.prepared | self.down:
            self.prepared.add(member)
            self.head.remote.prepare(member)

    @rule(member=MEMBERS, seldom=SELDOM)
    def retire(self, member: Member, seldom: bool) -> None:
        if seldom and member in self.prepared:
            self.prepared.remove(member)
            self.head.remote.retire(member)

    @rule(member=MEMBERS)
    def call(self, member: Member) -> None:
        if member in self.prepared:
            self.firing += 1
            self.open[member].append(self.firing)
            if member not in self.down:
                self.head.call(member, sample(self.firing, STEPS))

    @rule()
    def receive(self) -> None:
        for member, report in self.head.remote.reports():
            if isinstance(report, ExitReport):
                self.head.remote.end(member)
                self.down.add(member)
            elif isinstance(report, Done):
                self.open[member].remove(report.firing)

    @precondition(lambda self: self.down)
    @rule()
    def restart(self) -> None:
        member = self.down.pop()
        self.head.remote.start(member)
        for firing in self.open[member]:
            self.head.call(member, sample(firing, STEPS))

    # -- the head daemon and the replay buffer -------------------------------------------------

    @rule(one=NODES, two=NODES, nowhere=SELDOM)
    def place(self, one: str, two: str, nowhere: bool) -> None:
        self.head.remote.placed(control.Placed({0: one} if nowhere else {0: one, 1: two}))

    @rule(node=NODES, seldom=SELDOM)
    def node_gone(self, node: str, seldom: bool) -> None:
        if seldom:
            self._forget(node)
            self.head.remote.placed(control.Placed({}, (node,)))

    @rule()
    def adopt(self) -> None:
        self.head.remote.step()
        self.head.adopt()
        self.head.pending = {}

    # -- executors ---------------------------------------------------------------------------------

    @rule(node=NODES, anew=SELDOM)
    def site_comes(self, node: str, anew: bool) -> None:
        if node in self.head.remote.nodes and not anew:
            return
        self._forget(node)
        self.head.remote.heard(node, steering.ExecutorUp(node, 1, 2, "4.1", warm=False))

    @rule(node=NODES)
    def site_up(self, node: str) -> None:
        if node in self.head.remote.nodes and not self.head.remote.nodes.is_warm(node):
            self.head.remote.heard(node, steering.ExecutorUp(node, 1, 2, "4.1"))

    @rule(node=NODES, seldom=SELDOM)
    def site_closed(self, node: str, seldom: bool) -> None:
        if seldom:
            self._forget(node)
            self.head.remote.heard(node, steering.ExecutorClosed({}))

    @rule(member=MEMBERS, dies=SELDOM)
    def answer(self, member: Member, dies: bool) -> None:
        node = self.head.remote.node_of(member)
        calls = self.lodged.get((node, member))
        if not calls:
            return
        term, rows = (
            self.head.remote.passers[member].term,
            self.head.blocks[member.rank].written,
        )
        if dies:
            del self.lodged[node, member]
            self.dead.add((node, member))
            death = steering.Died(member, term, "killed", None, False, False, rows)
            self.head.remote.heard(node, death)
        else:
            self.head.done(node, member, calls.pop(0), rows, term)

    @precondition(lambda self: self.asked)
    @rule(whole=st.booleans(), fails=SELDOM, held=st.booleans(), shared=st.booleans())
    def bundle(self, whole: bool, fails: bool, held: bool, shared: bool) -> None:
        node, number = self.asked[-1]
        news = (
            steering.BundlePiece(number, 0, 1, b"i")
            if whole
            else steering.Packed(number, "no" * fails, held, "memory" * shared)
        )
        self.head.remote.heard(node, news)

    @precondition(lambda self: self.taking)
    @rule(fails=SELDOM)
    def memory(self, fails: bool) -> None:
        node, number = self.taking.pop()
        self.head.remote.heard(node, steering.MemoryHere(number, "no" * fails))

    @rule()
    def time_passes(self) -> None:
        self.head.clock.advance(1.0)

    def _forget(self, node: str | None) -> None:
        self.lodged = {key: calls for key, calls in self.lodged.items() if key[0] != node}
        self.dead = {key for key in self.dead if key[0] != node}

    # -- what must hold ------------------------------------------------------------------------

    @invariant()
    def what_sites_are_told_makes_sense(self) -> None:
        for node, message in self.head.said():
            match message:
                case steering.Pack(number=number) | steering.PackMemory(number=number):
                    self.asked.append((node, number))
                case steering.TakeMemory(number=number):
                    self.taking.append((node, number))
                case steering.Start(member=member) | steering.Prepare(member=member):
                    assert message.term == self.head.blocks[member.rank].incarnation
                    assert not [at for at in self.lodged if at[1] == member and at[0] != node]
                    self.lodged.setdefault((node, member), [])
                    if isinstance(message, steering.Start):
                        self.lodged[node, member] = []
                case steering.Call(member=member):
                    if (node, member) not in self.dead:
                        self.lodged[node, member].append(message.call.firing)
                case steering.End(member=member):
                    if (node, member) not in self.dead:
                        del self.lodged[node, member]
                    self.dead.discard((node, member))

    @invariant()
    def nobody_is_forgotten(self) -> None:
        for member, calls in self.open.items():
            placement = self.head.remote.passers[member]
            kept = [each.call.firing for each in (*placement.given, *placement.waiting)]
            lost = placement.state == "node_lost" or member in self.down
            assert lost or set(calls) <= set(kept) | self._reported(member)

    def _reported(self, member: Member) -> set[int]:
        return {
            report.firing
            for who, report in self.head.remote._reports
            if who == member and isinstance(report, Done)
        }


TestPlaces = Places.TestCase
TestPlaces.settings = settings(max_examples=100, stateful_step_count=80, deadline=None)
