"""Rounds that are fired before the first version are granted as they were booked."""

from __future__ import annotations

from pathlib import Path

import pytest
from elastic_loop import STEPS, troupe

from artos.buffer.samplers.patterns import Uniform
from artos.specs.actor_count import Manual
from head.run.concerns.scaling import Scaling
from triggers import ReplayTrigger, RoundTrigger


@pytest.mark.parametrize(("left", "rounds"), [(2, 3), (1, 2)])
def test_what_is_booked_is_what_is_granted(left: int, rounds: int, tmp_path: Path) -> None:
    """There is room for three rounds: two of one actor and one of the other, which may leave."""
    replay = ReplayTrigger("rewards", Uniform(8), ratio=1.0, after=0, slack=3.0 * STEPS)
    table = {"learner.update": replay, "actors.sample": RoundTrigger()}
    with troupe(Manual(2, 2), table, 0, tmp_path, capacity=64, updates=12) as players:
        begin = players.coordinator.begin

        def leave() -> None:
            begin()
            players.coordinator.concern(Scaling).scale(left)

        players.coordinator.begin = leave  # type: ignore[method-assign]
        players.begin()
        wrappers = players.coordinator.engine.wrappers
        (limit,) = (w.trigger.limit for w in wrappers if isinstance(w.trigger, ReplayTrigger))
        granted = players.coordinator.rounds.granted
        assert limit.granted == granted == rounds * STEPS
        players.run()
        assert players.coordinator.progress.updates == 12
