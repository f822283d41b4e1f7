"""Actors are ordered back before the learner publishes: by the coordinator, on a clock by hand."""

from __future__ import annotations

from pathlib import Path

import msgspec
from elastic_loop import Troupe, fifo, full_batch, troupe, who

from artos.protocol.invocations import Done, Invoke
from artos.specs.actor_count import Schedule
from artos.specs.members import Member
from triggers.journal import read

TICK, PER_ACTOR, RESTORE = 0.01, 0.5, 0.2


class Parked(Troupe):
    """Whose actors are images between rounds: each takes ``RESTORE`` seconds to come back.

    An update takes ``PER_ACTOR`` seconds for each actor it learns from. ``orders`` has for each
    update which actors were ordered back, and how many seconds before its version.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.orders: list[dict[int, float]] = []
        self.idle: list[float] = []
        self._ordered: dict[int, float] = {}

    def prepare(self, member: Member, within: float = 0.0) -> None:
        if member in self._up:
            assert member.rank not in self._ordered, "ordered back twice"
            self._ordered[member.rank] = self.clock.now()
        else:
            super().prepare(member)

    def _act(self, actor: int, call: Invoke) -> Done:
        self.idle.append(call.idle)
        return msgspec.structs.replace(super()._act(actor, call), restored=RESTORE)

    def _learn(self, call: Invoke) -> Done:
        for _ in range(round(PER_ACTOR * len(call.claims) / TICK)):
            self.clock.advance(TICK)
            self.coordinator.tick()
        now = self.clock.now()
        self.orders.append({actor: now - at for actor, at in self._ordered.items()})
        self._ordered.clear()
        return super()._learn(call)


def run_of(stairs: Schedule, updates: int, folder: Path, park: str = "checkpoint") -> Parked:
    rounds = sum(stairs.at(update) for update in range(updates))
    table = full_batch()
    with troupe(stairs, table, rounds, folder, park=park, kind=Parked) as run:  # type: ignore[arg-type]
        assert isinstance(run, Parked)
        run.begin()
        run.run()
        return run


def test_everybody_is_ordered_back_in_time_from_the_third_update_on(tmp_path: Path) -> None:
    run = run_of(Schedule({0: 4}), 12, tmp_path)
    assert run.orders[:2] == [{}, {}], "two updates have to be seen first"
    for order in run.orders[2:-1]:
        assert order.keys() == {0, 1, 2, 3}
        assert all(RESTORE <= before <= RESTORE + 0.1 * 4 * PER_ACTOR for before in order.values())
    assert run.orders[-1] == {}, "after the last update nobody is needed"
    fired = [line for line in read(tmp_path / "journal.jsonl") if line.get("firing")]
    assert [line["trigger"] for line in fired].count("actors.prewarm") == 9


def test_nobody_is_ordered_back_once_the_run_is_to_end(tmp_path: Path) -> None:
    stairs = Schedule({0: 2})
    with troupe(stairs, full_batch(), 40, tmp_path, park="checkpoint", kind=Parked) as run:
        assert isinstance(run, Parked)
        run.begin()
        run.run(updates=6)
        assert run.orders[-1].keys() == {0, 1}
        run.coordinator.ending.drain()
        run.run()
        assert len(run.orders) == 7
        assert run.orders[-1] == {}


def test_only_images_are_ordered_back(tmp_path: Path) -> None:
    run = run_of(Schedule({0: 4}), 8, tmp_path, park="auto")
    assert not any(run.orders)


def test_in_time_although_the_number_of_actors_changes(tmp_path: Path) -> None:
    """Fewer make updates shorter at once, more make them longer: nobody is late either way."""
    run = run_of(Schedule({0: 4, 6: 2, 12: 1, 18: 4}), 26, tmp_path)
    for order, actors in list(zip(run.orders, run.learned_from, strict=True))[2:-1]:
        assert order.keys() == set(actors)
        assert min(order.values()) >= RESTORE
    early = [min(order.values()) > 2 * RESTORE for order in run.orders[:-1] if order]
    assert sum(early) <= 5, "old values do not keep it early for long"


def test_rounds_are_told_how_long_the_actor_will_be_idle(tmp_path: Path) -> None:
    run = run_of(Schedule({0: 2}), 6, tmp_path)
    assert run.idle[:4] == [0.0] * 4
    assert all(0.9 <= seconds <= 2 * PER_ACTOR for seconds in run.idle[6:])


def test_whoever_still_samples_is_not_ordered_back(tmp_path: Path) -> None:
    """With an update for each round, most actors are busy while the learner works."""
    with troupe(Schedule({0: 3}), fifo(), 60, tmp_path, park="checkpoint", kind=Parked) as run:
        assert isinstance(run, Parked)
        run.begin()
        busy: list[set[int]] = []
        learn = run._learn

        def watched(call: Invoke) -> Done:
            busy.append({who(m) for m, queue in run._queues.items() if queue})
            return learn(call)

        run._learn = watched  # type: ignore[method-assign]
        run.run()
        assert any(run.orders)
        assert not any(order.keys() & at for order, at in zip(run.orders, busy, strict=True))
