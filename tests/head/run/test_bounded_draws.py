"""Draws whose rows may not be too old go on whatever keeps actors from newer weights."""

from __future__ import annotations

from pathlib import Path

import pytest
from elastic_loop import Troupe, troupe

from artos.buffer.samplers.patterns import Uniform
from artos.protocol.invocations import Done, Invoke
from artos.specs.actor_count import Manual
from artos.specs.keys import VERSION_KEY
from triggers import ReplayTrigger, RoundTrigger, TimeTrigger
from triggers.table import Table

UPDATES = 12


class Bounded(Troupe):
    """Its learner draws only where there are rows of the newest ``max_lag`` versions."""

    max_lag = 0

    def _learn(self, call: Invoke) -> Done:
        version = self._node.weights.version
        newest = [
            int(block.arrays[VERSION_KEY][block.index(block.written - 1)])
            for block in self._node.blocks.values()
            if block.written
        ]
        if version - max(newest) > self.max_lag:
            return Done(call.firing, version, nothing="all rows are too old", stale=3)
        return super()._learn(call)


@pytest.mark.parametrize("first", ["learner.update", "actors.sample"])
@pytest.mark.parametrize("max_lag", [0, 2])
@pytest.mark.parametrize("seed", range(4))
def test_actors_get_newer_weights_before_their_rows_are_useless(
    seed: int, max_lag: int, first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastic_loop.Troupe", Bounded)
    monkeypatch.setattr(Bounded, "max_lag", max_lag)
    replay = ReplayTrigger("rewards", Uniform(8), ratio=16.0, after=0, max_lag=max_lag)
    table: Table = {"learner.update": replay, "actors.sample": RoundTrigger()}
    table = {first: table[first], **table, "actors.sync": TimeTrigger(1e6)}
    with troupe(Manual(2, 2), table, 0, tmp_path, seed, capacity=64, updates=UPDATES) as players:
        players.begin()
        for _ in range(3_000):
            if players.coordinator.finished:
                break
            players.step()
        monitor = players.coordinator.monitor
        assert players.coordinator.progress.updates == UPDATES
        assert monitor.empty_draws > 0
        assert monitor.rows_stale == 3 * monitor.empty_draws
