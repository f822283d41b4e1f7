"""Actors on nodes, without nodes: what sites are told, what counts when, who goes where."""

from __future__ import annotations

from pathlib import Path

import pytest

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec, Consumer
from artos.clock import ManualClock
from artos.errors import BadMessage
from artos.protocol import wire
from artos.protocol.invocations import Done, Failed, Invoke, Ready
from artos.spec import DataKey
from artos.system.exit_report import Death
from head.run.remote.bundles import Parcels
from head.run.remote.remote_actors import RemoteActors

STEPS = 4
ONE, TWO = 1, 2
"""Member numbers of actors 0 and 1."""


class Head:
    """Two actors' blocks, and everything that remote actors tell anybody."""

    def __init__(self, folder: Path) -> None:
        self.blocks = {actor: _block(folder / f"actor-{actor}", actor) for actor in (0, 1)}
        self.told: list[tuple[str, wire.Message]] = []
        self.lost: list[tuple[int, int, str]] = []
        self.moved: list[int] = []
        self.quiet: dict[str, float] = {}
        self.adopts = True
        self.published = 0
        self.clock = ManualClock()
        self.parcels = Parcels(folder / "parcels", self.send, self.clock)
        self.remote = RemoteActors(
            self.blocks, 1, self, self._terms, lambda node: self.quiet.get(node, 0.0),
            self.parcels,
        )  # fmt: skip
        self.remote.begin(self)
        self.remote.step()

    def send(self, node: str, message: wire.Message) -> None:
        self.told.append((node, message))

    # -- Books -------------------------------------------------------------------------------------

    def place_anew(self, actor: int, term: int, committed: int, node: str) -> int:
        base = self.blocks[actor].written // STEPS * STEPS
        if committed > base:
            self.lost.append((actor, committed - base, node))
        return base

    def restarting(self, member: int) -> None:
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
        self.remote.arrived(actor + 1)

    def up(self, *nodes: str) -> None:
        for node in nodes:
            self.remote.heard(node, wire.SiteUp(node, 1, 2))
        self.remote.step()

    def place(self, actors: dict[int, str], *gone: str) -> None:
        self.remote.placed(wire.Placed(actors, gone, "so it is"))
        self.remote.step()

    def begin(self) -> None:
        """Actor 0 on w1 and actor 1 on w2, both started."""
        self.up("w1", "w2")
        self.place({0: "w1", 1: "w2"})
        self.remote.start(ONE)
        self.remote.start(TWO)
        self.said()

    def said(self) -> list[tuple[str, wire.Message]]:
        self.remote.step()
        told, self.told = self.told, []
        return told

    def done(self, node: str, member: int, firing: int, rows: int, term: int = 1) -> None:
        self.remote.heard(node, wire.Said(member, term, Done(firing, 0), rows))

    def reports(self) -> list[tuple[int, object]]:
        reports: list[tuple[int, object]] = [*self.remote.reports()]
        self.remote.step()
        return reports


def _block(path: Path, actor: int) -> ActorBlock:
    consumer = Consumer("learner.update", ("x",))
    return ActorBlock.create(path, BlockSpec(actor, (DataKey("x"),), 8, 1, (consumer,)))


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path)


def sample(firing: int, stop: int, *, bind: bool = True) -> Invoke:
    return Invoke(firing, "actors.sample", "sample", (), stop, bind)


def test_calls_wait_for_a_place_and_then_follow_the_start(head: Head) -> None:
    head.remote.start(ONE)
    head.remote.send(ONE, sample(7, STEPS))
    assert head.said() == []
    assert head.remote.whereabouts.held_back(ONE)
    assert head.remote.whereabouts.homeless(ONE) == "a node with a free slot"
    head.place({0: "w1"})
    assert head.remote.whereabouts.homeless(ONE) == "the site on w1"
    head.up("w1")
    assert head.said() == [
        ("w1", wire.Start(ONE, 1, 0)),
        ("w1", wire.Call(ONE, sample(7, STEPS), 0)),
    ]
    assert head.remote.whereabouts.homeless(ONE) == ""
    assert not head.remote.whereabouts.held_back(ONE)


def test_only_calls_that_bind_wait_for_weights(head: Head) -> None:
    head.begin()
    head.remote.send(ONE, sample(1, STEPS))
    head.published = 5
    head.remote.send(ONE, sample(2, 2 * STEPS, bind=False))
    head.remote.send(ONE, sample(3, 3 * STEPS))
    assert [message.version for _, message in head.said()] == [0, -1, 5]


def test_a_new_process_never_samples_with_older_weights_than_there_are(head: Head) -> None:
    """It has none, so it binds some; those of its node may be older than what it had elsewhere."""
    head.begin()
    for version in (5, 6):
        head.published = version
        head.remote.send(ONE, sample(version, STEPS, bind=False))
        head.remote.send(ONE, sample(version, STEPS, bind=False))
        calls = [message for _, message in head.said() if isinstance(message, wire.Call)]
        assert [call.version for call in calls] == [version, -1]
        head.remote.start(ONE)
    head.published = 7
    head.remote.send(TWO, sample(7, STEPS))
    head.done("w2", TWO, 7, STEPS)
    head.arrive(1, STEPS)
    head.reports()
    head.place({0: "w1", 1: "w1"})
    head.remote.send(TWO, sample(8, 2 * STEPS, bind=False))
    assert ("w1", wire.Call(TWO, sample(8, 2 * STEPS, bind=False), 7)) in head.said()


def test_an_answer_counts_once_its_rows_are_there(head: Head) -> None:
    head.begin()
    head.remote.send(ONE, sample(7, STEPS))
    head.done("w1", ONE, 7, STEPS)
    assert head.reports() == []
    head.arrive(0, STEPS - 1)
    assert head.reports() == []
    head.arrive(0, STEPS)
    assert head.reports() == [(ONE, Done(7, 0))]
    assert head.reports() == []


def test_last_words_come_before_the_death(head: Head) -> None:
    head.begin()
    head.remote.send(ONE, sample(7, STEPS))
    head.done("w1", ONE, 7, STEPS)
    head.remote.heard("w1", wire.Died(ONE, 1, "killed", None, False, False, STEPS))
    assert head.reports() == []
    head.arrive(0, STEPS)
    (first, (member, death)) = head.reports()
    assert first == (ONE, Done(7, 0))
    assert member == ONE
    assert isinstance(death, Death)
    assert "w1" in death.why
    assert not death.own


def test_who_restarts_at_its_place_keeps_its_term(head: Head) -> None:
    head.begin()
    head.remote.end(ONE)
    head.remote.start(ONE)
    assert head.said() == [("w1", wire.End(ONE)), ("w1", wire.Start(ONE, 1, 0))]


def test_a_lost_node_means_death_loss_and_a_new_term(head: Head) -> None:
    head.begin()
    head.remote.send(TWO, sample(7, 2 * STEPS))
    head.arrive(1, STEPS + 2)
    head.remote.heard("w2", wire.SiteNews({}, (), {1: 2 * STEPS}))
    head.said()
    head.place({0: "w1", 1: "w1"}, "w2")
    assert head.lost == [(1, STEPS, "w2")]
    ((member, death),) = head.reports()
    assert member == TWO
    assert isinstance(death, Death)
    assert not death.own
    assert head.said() == [], "nothing is told before the coordinator has decided"
    head.remote.end(TWO)
    head.remote.start(TWO)
    head.remote.send(TWO, sample(7, 2 * STEPS))
    assert head.said() == [
        ("w1", wire.Start(TWO, 2, STEPS)),
        ("w1", wire.Call(TWO, sample(7, 2 * STEPS), 0)),
    ]
    assert head.blocks[1].written == STEPS
    head.done("w2", TWO, 7, 2 * STEPS, term=1)
    head.done("w1", TWO, 7, 2 * STEPS, term=1)
    head.arrive(1, 2 * STEPS)
    assert head.reports() == [], "what an older place said is void"


def test_nobody_starts_before_the_replay_buffer_knows_the_term(head: Head) -> None:
    head.begin()
    head.adopts = False
    head.place({0: "w1", 1: "w1"}, "w2")
    list(head.reports())
    head.remote.end(TWO)
    head.remote.start(TWO)
    head.remote.step()
    assert head.said() == []
    assert head.remote.whereabouts.homeless(TWO) == "the replay buffer"
    head.adopt()
    head.remote.step()
    assert head.said() == [("w1", wire.Start(TWO, 2, 0))]


def test_a_move_waits_until_nothing_is_under_way(head: Head) -> None:
    head.begin()
    head.remote.send(TWO, sample(7, STEPS))
    head.said()
    head.place({0: "w1", 1: "w1"})
    head.remote.send(TWO, sample(8, 2 * STEPS))
    head.done("w2", TWO, 7, STEPS)
    assert head.reports() == []
    assert head.said() == []
    head.arrive(1, STEPS)
    assert head.reports() == [(TWO, Done(7, 0))]
    assert head.said() == [
        ("w2", wire.End(TWO)),
        ("w1", wire.Start(TWO, 2, STEPS)),
        ("w1", wire.Call(TWO, sample(8, 2 * STEPS), 0)),
    ]
    assert head.moved == [TWO]
    assert head.lost == []


def test_a_move_waits_for_rows_and_words_that_are_on_their_way(head: Head) -> None:
    head.begin()
    head.remote.heard("w2", wire.SiteNews({}, (), {1: STEPS}))
    head.place({0: "w1", 1: "w1"})
    assert head.reports() == []
    assert head.said() == []
    head.remote.heard("w2", wire.Died(TWO, 1, "killed", None, False, False, STEPS + 1))
    head.arrive(1, STEPS)
    assert head.reports() == []
    assert head.said() == []
    head.arrive(1, STEPS + 1)
    ((member, _),) = head.reports()
    assert member == TWO
    assert head.said()[0] == ("w2", wire.End(TWO))


def test_a_move_waits_until_what_was_said_is_heard(head: Head) -> None:
    head.begin()
    head.remote.heard("w2", wire.Said(TWO, 1, Ready(0.5), 0))
    head.place({0: "w1", 1: "w1"})
    assert head.said() == []
    assert head.reports() == [(TWO, Ready(0.5))]
    assert head.said()[0] == ("w2", wire.End(TWO))


def test_a_move_that_is_taken_back(head: Head) -> None:
    head.begin()
    head.remote.send(TWO, sample(7, STEPS))
    head.place({0: "w1", 1: "w1"})
    head.remote.send(TWO, sample(8, 2 * STEPS))
    head.said()
    head.place({0: "w1", 1: "w2"})
    assert head.said() == [("w2", wire.Call(TWO, sample(8, 2 * STEPS), 0))]


def test_a_node_lost_during_a_move(head: Head) -> None:
    head.begin()
    head.remote.send(TWO, sample(7, STEPS))
    head.place({0: "w1", 1: "w1"})
    head.place({0: "w1", 1: "w1"}, "w2")
    assert [member for member, _ in head.reports()] == [TWO]
    head.remote.end(TWO)
    head.remote.start(TWO)
    assert head.said()[-1] == ("w1", wire.Start(TWO, 2, 0))


def test_a_site_that_was_started_anew_has_lost_its_actors(head: Head) -> None:
    head.begin()
    head.up("w2")
    assert [member for member, _ in head.reports()] == [TWO]
    head.remote.end(TWO)
    head.remote.start(TWO)
    assert head.said() == [("w2", wire.Start(TWO, 2, 0))]


def test_a_closed_site_says_its_last_bill(head: Head) -> None:
    head.begin()
    start = {"cold": {"count": 2, "median_s": 1.0, "p95_s": 2.0}}
    head.remote.heard("w1", wire.SiteNews({"starts": start, "used_cpu_seconds": 1.0}))
    head.remote.heard("w2", wire.SiteClosed({"starts": start, "used_cpu_seconds": 2.5}))
    bill = head.remote.nodes.bill()
    assert bill.used_cpu_seconds == 3.5
    assert bill.starts["cold"] == {"count": 4, "median_s": 1.0, "p95_s": 2.0}
    assert head.remote.nodes.open == ("w1",)
    assert head.remote.nodes.seen == ("w1", "w2")


def test_who_failed_is_not_also_bereft(head: Head) -> None:
    head.begin()
    head.remote.heard("w2", wire.Said(TWO, 1, Failed(7, 0, "ValueError: no"), 0))
    head.place({0: "w1", 1: "w1"}, "w2")
    reports = head.remote.reports()
    assert next(reports) == (TWO, Failed(7, 0, "ValueError: no"))
    head.remote.end(TWO)  # as the coordinator does then
    assert list(reports) == []


def test_who_was_put_away_is_not_started_at_its_next_place(head: Head) -> None:
    head.begin()
    head.remote.retire(TWO)
    assert head.said() == [("w2", wire.Retire(TWO))]
    head.place({0: "w1", 1: "w1"})
    assert head.said() == [("w2", wire.End(TWO))]
    head.remote.prepare(TWO)
    assert head.said() == [("w1", wire.Prepare(TWO, 2, 0))]


def test_a_silent_node_is_why_nobody_answers(head: Head) -> None:
    head.begin()
    head.remote.send(ONE, sample(7, STEPS))
    assert not head.remote.whereabouts.held_back(ONE)
    head.quiet["w1"] = 8.0
    assert head.remote.whereabouts.held_back(ONE)
    head.quiet["w1"] = 0.1
    head.remote.heard("w1", wire.SiteNews({}, held_back=(ONE,)))
    assert head.remote.whereabouts.held_back(ONE)


def test_a_closing_run_only_keeps_books(head: Head) -> None:
    head.begin()
    head.remote.close()
    assert head.said() == [("w1", wire.CloseSite()), ("w2", wire.CloseSite())]
    head.remote.heard("w1", wire.SiteClosed({}))
    head.remote.heard("w2", wire.SiteClosed({}))
    assert head.reports() == []
    assert head.remote.nodes.open == ()


def test_messages_of_nobody_change_nothing(head: Head) -> None:
    head.begin()
    head.remote.heard("w9", wire.Said(ONE, 1, Ready(0.0), 0))
    head.remote.heard("w2", wire.Said(ONE, 1, Ready(0.0), 0))
    head.remote.heard("w9", wire.SiteUp("w9", 2, 1))
    assert head.reports() == []
    assert head.said() == []
    assert head.remote.nodes.open == ("w1", "w2")


@pytest.mark.parametrize(
    "message",
    [
        wire.Said(99, 1, Ready(0.0), 0),
        wire.Died(0, 1, "why", None, True, False, 0),
        wire.SiteNews({"held_cpu_seconds": "many"}),
        wire.SiteNews({"starts": {"cold": {"count": 3}}}),
        wire.SiteClosed({"used_cpu_seconds": None}),
        wire.Nudge(),
    ],
)
def test_messages_that_make_no_sense_change_nothing(head: Head, message: wire.Message) -> None:
    head.begin()
    with pytest.raises(BadMessage):
        head.remote.heard("w1", message)
    assert head.reports() == []
    assert head.said() == []
    assert head.remote.nodes.open == ("w1", "w2")
    head.remote.nodes.bill()
