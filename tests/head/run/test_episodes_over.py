"""Whole episodes in a run whose actors die in their midst, end rounds early, or find no room."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import pytest
from elastic_loop import STEPS, Troupe, troupe

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.samplers.patterns import Episodes
from artos.errors import EpisodesDoNotFit
from artos.protocol.invocations import Claim, Done, Invoke
from artos.specs.actor_count import Manual
from artos.specs.keys import VERSION_KEY, DataKey
from artos.specs.members import ACTORS, Member
from head.run.monitor import lags_of_claims
from triggers import DataKeyTrigger, RoundTrigger
from triggers.table import Table

LENGTH = 6


class Players(Troupe):
    """Actors whose episodes have ``LENGTH`` rows; with ``early`` a round ends with an episode."""

    early = False
    length = LENGTH
    counts = True

    @cached_property
    def ages(self) -> Counter[int]:
        """Of the episode of each actor."""
        return Counter()

    def _act(self, actor: int | Member, call: Invoke) -> Done:
        assert not isinstance(actor, Member)
        ages = self.ages
        if call.bind or actor not in self._version_of:
            self._version_of[actor] = self._node.weights.pin(actor).version
        version, block = self._version_of[actor], self._node.blocks[actor]
        over = False
        while block.written < call.stop and not (over and self.early):
            row, age = block.index(block.allocate(1, seconds=0.0)), ages[actor]
            over = age == self.length - 1
            for name, value in (
                ("rewards", 1.0), ("terminations", over), ("truncations", False),
                ("ages", age * self.counts), (VERSION_KEY, version),
            ):  # fmt: skip
                block.arrays[name][row] = value
            block.commit(block.written + 1)
            ages[actor] = 0 if over else age + 1
        return Done(call.firing, version)

    def kill(self, actor: int) -> None:
        """Its successor begins another episode."""
        self.ages[actor] = 0
        super().kill(actor)


def table(n: int = 3, *, ahead: int = 1) -> Table:
    return {
        "learner.update": DataKeyTrigger(("rewards",), sample=Episodes(n)),
        "actors.sample": RoundTrigger(ahead=ahead),
    }


def until_it_ends(players: Troupe) -> None:
    while True:
        players.step()
        players.coordinator.tick()


def claims_of(players: Troupe, actor: int) -> list[Claim]:
    return [c for claims in players.used for c in claims if c.actor == actor]


@pytest.mark.parametrize("seed", range(3))
def test_each_is_learned_from_once_and_then_makes_room(seed: int, tmp_path: Path) -> None:
    """Many more rows than a block holds."""
    with troupe(Manual(2, 2), table(), 120, tmp_path, seed, 32, kind=Players) as players:
        players.begin()
        players.run()
        run = players.coordinator
        for actor, block in run.ports.blocks.items():
            found = claims_of(players, actor)
            assert [(c.start, c.stop) for c in found] == [
                (LENGTH * at, LENGTH * (at + 1)) for at in range(len(found))
            ]
            assert block.headers["rewards"].released == len(found) * LENGTH
            assert block.written > 3 * 32
        assert all(len(claims) == 3 for claims in players.used)
        assert (run.monitor.rows_lost, run.monitor.rows_stale) == (0, 0)
        left = sum(block.written for block in run.ports.blocks.values()) - run.progress.consumed
        assert left < (3 + 2) * LENGTH, "too few for another update, and what is not over"


def test_the_lag_of_an_episode_is_that_of_its_own_rows(tmp_path: Path) -> None:
    spec = BlockSpec(0, (DataKey("rewards"),), 8, envs=3)
    block = ActorBlock.create(tmp_path / "block", spec)
    block.allocate(4)
    block.arrays[VERSION_KEY][:4] = (1, 1, 2, 3)
    block.commit(4)
    (one,) = lags_of_claims({0: block}, [Claim(0, 1, 4, env=2)], version=3, envs=3)
    assert (one.rows, one.total, one.largest) == (3, 2 + 1 + 0, 2)
    (whole,) = lags_of_claims({0: block}, [Claim(0, 1, 4)], version=3, envs=3)
    assert (whole.rows, whole.total) == (9, 9)


@pytest.mark.parametrize("reported", [True, False])
def test_what_is_cut_short_is_given_up_and_counted(reported: bool, tmp_path: Path) -> None:
    with troupe(Manual(1, 1), table(1), 30, tmp_path, 0, 32, kind=Players) as players:
        players.begin()
        players.run(updates=1)
        run, actor = players.coordinator, Member(ACTORS, 0)
        while run.ports.blocks[0].written % LENGTH != 4:
            players.step()
        if reported:
            players.kill(0)
        else:
            players.act_and_die(0)
        cut = run.ports.blocks[0].written
        begun = cut - cut % LENGTH
        players.run()
        found = claims_of(players, 0)
        gaps = [(a.stop, b.start) for a, b in pairwise(found) if a.stop != b.start]
        assert gaps == [(begun, cut)]
        assert (run.monitor.rows_lost, run.monitor.rows_stale) == (cut - begun, 0)
        assert actor not in run.roster.down
        assert {c.stop - c.start for c in found} == {LENGTH}


def test_ages_that_do_not_count_are_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each row begins an episode then, so all but those that end with their first row are lost."""

    class Ageless(Players):
        counts = False

    with troupe(Manual(2, 2), table(1), 30, tmp_path, 0, 32, kind=Ageless) as players:
        players.begin()
        players.run()
        assert players.coordinator.monitor.rows_lost > 0
    (said,) = (each.message for each in caplog.records if "'ages'" in each.message)
    assert said.startswith("actor ")
    assert "begins an episode in row " in said


def test_one_that_a_restart_cut_short_is_nobodys_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with troupe(Manual(1, 1), table(1), 30, tmp_path, 0, 32, kind=Players) as players:
        players.begin()
        for _ in range(3):
            players.run(updates=len(players.used) + 1)
            while players.ages[0] < 2:
                players.step()
            players.kill(0)
        players.run()
        gaps = [a.stop != b.start for a, b in pairwise(claims_of(players, 0))]
        assert sum(gaps) == 3
    assert "'ages'" not in caplog.text


def test_rounds_that_end_early_are_granted_anew(tmp_path: Path) -> None:
    """Each has one episode of three rows, where it might have four; and none is cut by it."""

    class Early(Players):
        early, length = True, 3

    with troupe(Manual(2, 2), table(), 60, tmp_path, 1, 32, kind=Early) as players:
        players.begin()
        players.run()
        run = players.coordinator
        assert run.plan.short_rounds
        lines = [run.rounds.granted_to(actor) for actor in (0, 1)]
        written = [block.written for block in run.ports.blocks.values()]
        assert lines == written, "what is not sampled is not granted"
        assert sum(written) > 60 * STEPS - 2 * STEPS, "the budget counts what was written"
        assert all(c.stop - c.start == 3 for claims in players.used for c in claims)


def test_an_episode_that_outgrows_its_block_ends_the_run(tmp_path: Path) -> None:
    class Endless(Players):
        length = 1000

    with troupe(Manual(2, 2), table(), 60, tmp_path, 1, 16, kind=Endless) as players:
        players.begin()
        with pytest.raises(EpisodesDoNotFit) as error:
            until_it_ends(players)
    assert "after 16 rows an episode of actor" in str(error.value)
    assert "capacity=16 rows: raise capacity" in str(error.value)


def test_more_episodes_than_blocks_hold_end_the_run(tmp_path: Path) -> None:
    with troupe(Manual(2, 2), table(8), 60, tmp_path, 1, 16, kind=Players) as players:
        players.begin()
        with pytest.raises(EpisodesDoNotFit, match="fewer whole episodes than a trigger waits for"):
            until_it_ends(players)
