"""The head's half of remote actors without nodes: blocks, and whatever is told to anybody."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from named import acting

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec, Consumer
from artos.clock import ManualClock
from artos.protocol import control, steering
from artos.protocol.invocations import Done, Invoke
from artos.protocol.message import Message
from artos.specs.keys import DataKey
from artos.specs.members import ACTORS, Member
from head.run.remote.bundles import Bundles
from head.run.remote.memories import Memories
from head.run.remote.remote_actors import RemoteActors

STEPS = 4
ONE, TWO = acting(0, 1)


class Head:
    """Two actors' blocks, and everything that remote actors tell anybody."""

    def __init__(self, folder: Path) -> None:
        self.blocks = {actor: block_at(folder / f"actor-{actor}", actor) for actor in (0, 1)}
        self.told: list[tuple[str, Message]] = []
        self.lost: list[tuple[int, int, str]] = []
        self.moved: list[Member] = []
        self.quiet: dict[str, float] = {}
        self.adopts = True
        self.published, self.published_beside = 0, dict[str, int]()
        self.clock = ManualClock()
        self.bundles = Bundles(folder / "bundles", self.send, self.clock, count(1))
        self.memories = Memories(folder / "memories", self.send, self.clock, count(101))
        self.remote = RemoteActors(
            self.blocks, 1, self, self._terms, lambda node: self.quiet.get(node, 0.0),
            self.bundles, self.memories, lambda member: folder / f"held-{member.rank}", self.clock,
            lambda order: order.weights.encode(),
        )  # fmt: skip
        self.remote.begin(self)
        self.remote.step()

    def send(self, node: str, message: Message) -> None:
        self.told.append((node, message))

    def call(self, member: Member, invoke: Invoke) -> None:
        self.remote.passers[member].pass_message(invoke)

    # -- Bookkeeper --------------------------------------------------------------------------------

    def place_anew(
        self, actor: int, term: int, committed: int, node: str, *, goes_on: bool = False
    ) -> int:
        del goes_on
        base = self.blocks[actor].written // STEPS * STEPS
        if committed > base:
            self.lost.append((actor, committed - base, node))
        return base

    def restarting(self, member: Member) -> None:
        self.moved.append(member)

    # -- the replay buffer -----------------------------------------------------------------

    def _terms(self, terms: dict[int, int], bases: dict[int, int], nodes: dict[int, str]) -> None:
        self.pending = {actor: (term, bases[actor]) for actor, term in terms.items()}
        if self.adopts:
            self.adopt()

    def adopt(self) -> None:
        for actor, (term, base) in self.pending.items():
            self.blocks[actor].begin_term(term, base)

    def arrive(self, actor: int, rows: int) -> None:
        self.blocks[actor].commit(rows)
        self.remote.arrived(Member(ACTORS, actor))

    # -- nodes ----------------------------------------------------------------------------

    def up(self, *nodes: str) -> None:
        for node in nodes:
            self.remote.heard(node, steering.ExecutorUp(node, 1, 2))
        self.remote.step()

    def place(self, actors: dict[int, str], *gone: str) -> None:
        self.remote.placed(control.Placed(actors, gone, "so it is"))
        self.remote.step()

    def begin(self) -> None:
        """Actor 0 on w1 and actor 1 on w2, both started."""
        self.up("w1", "w2")
        self.place({0: "w1", 1: "w2"})
        self.remote.start(ONE)
        self.remote.start(TWO)
        self.said()

    def said(self) -> list[tuple[str, Message]]:
        self.remote.step()
        told, self.told = self.told, []
        return told

    def done(self, node: str, member: Member, firing: int, rows: int, term: int = 1) -> None:
        self.remote.heard(node, steering.ActorReport(member, term, Done(firing, 0), rows))

    def reports(self) -> list[tuple[Member, object]]:
        reports: list[tuple[Member, object]] = [*self.remote.reports()]
        self.remote.step()
        return reports


def block_at(path: Path, actor: int) -> ActorBlock:
    consumer = Consumer("learner.update", ("x",))
    return ActorBlock.create(path, BlockSpec(actor, (DataKey("x"),), 8, 1, (consumer,)))


def sample(firing: int, stop: int, *, bind: bool = True) -> Invoke:
    return Invoke(firing, "actors.sample", "sample", (), stop, bind)
