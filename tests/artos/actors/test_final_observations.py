"""What is drawn from replay, compared with the episodes as they were, whatever the environment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import told_env
from hypothesis import given, settings
from hypothesis import strategies as st

from artos.actors.context import ActorContext
from artos.actors.rollout import RolloutActor
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.samplers.drawn_batch import DrawnBatch, sampler_of
from artos.buffer.samplers.patterns import Draw, Pattern, Prioritised, Sequences, Uniform
from artos.buffer.samplers.uniform import UniformSampler
from artos.buffer.shm_folder import ShmFolder
from artos.errors import NothingToSample, Refused
from artos.protocol.invocations import Invoke

ENVS, BATCH, GAMMA = 2, 64, 0.9
KEYS = ("observations", "rewards", "terminations", "truncations", "valid")
MAKERS = ("single", "next_step", "disabled")


class Aimless(RolloutActor):
    """Acts without a network."""

    def build_module(self, seed: int) -> Any:
        return None

    def make_policy(self, module: Any, seed: int) -> Any:
        return SimpleNamespace(act=lambda *_: {"actions": np.zeros(ENVS, np.int64)})


class Life:
    """An actor, its block, and what the episodes in it were."""

    def __init__(
        self, folder: ShmFolder, maker: str, capacity: int, seed: int, chance: float
    ) -> None:
        self.stacked = maker.endswith("stacked")
        self.env = f"told_env:{maker}"
        self.actor = Aimless(self.env, envs=ENVS, final_observations=True)
        names = (*KEYS, "actions", "ages")
        keys = tuple(key for key in self.actor.data_keys() if key.name in names)
        spec = BlockSpec(0, keys, capacity, ENVS, (), "overwrite")
        self.block = ActorBlock.create(folder.path / "block", spec)
        self.stored: dict[int, int] = {}
        told_env.begin(seed, chance)  # only now, as registration has stepped environments, too
        self.restart()

    def restart(self) -> None:
        """Another process takes over: episodes that were going on are given up."""
        facts = self.actor.spec
        self.actor = Aimless(self.env, envs=ENVS, final_observations=True)
        self.actor.adopt(facts)
        plan: Any = SimpleNamespace(seed=0, actors=1, objects=())
        self.actor.setup(ActorContext(plan, 0, 0, self.block, 0))

    def move(self, rows: int) -> None:
        """The actor was placed elsewhere: its newest rows are void, and written once more."""
        base = max(0, self.block.written - rows)
        self.block.begin_term(self.block.incarnation + 1, base)
        self.restart()

    def round(self, rows: int) -> None:
        start = self.block.allocate(rows)
        self.actor.sample(start, rows, Invoke(1, "actors.sample", "sample"))
        self.block.commit(start + rows)
        self.stored = {}
        for step in self.steps():
            for row in self.block.arrays["observations"][self.block.index(step)]:
                self.stored.update([(int(row[0]), int(row[1]))])

    def steps(self) -> range:
        """All rows there are; void ones have overwritten others."""
        reserved = self.block.headers["observations"].reserved
        return range(max(0, reserved - self.block.spec.capacity), self.block.written)

    def place(self, observation: np.ndarray) -> tuple[int, int]:
        """Episode and step of an observation, which must be what the environment showed."""
        newest = observation[-1] if self.stacked else observation
        episode, step = (int(part) for part in newest)
        assert (observation == told_env.shown(episode, step, self.stacked)).all()
        return episode, step

    def check(self, batch: Any, at: int, n: int) -> None:
        """One row of a batch of transitions: n steps, fewer at an end or at the newest rows."""
        number, step = self.place(batch["observations"][at])
        episode = told_env.WORLD.episodes[number]
        length = min(n, len(episode.rewards) - step, self.stored[number] - step)
        assert length >= 1, "a row without a successor was drawn"
        assert self.place(batch["next.observations"][at]) == (number, step + length)
        if "n_step.returns" not in batch:
            return
        earned = sum(GAMMA**i * episode.rewards[step + i] for i in range(length))
        assert batch["n_step.returns"][at] == pytest.approx(earned, rel=1e-4, abs=1e-5)
        final = episode.terminated and step + length == len(episode.rewards)
        assert batch["n_step.discounts"][at] == pytest.approx(0.0 if final else GAMMA**length)

    def check_window(self, batch: Any, at: int) -> None:
        """Where the mask is true the next row of the window came next, unless that was the end."""
        mask, observations = batch["mask"][at], batch["observations"][at]
        assert mask[0]
        assert batch["valid"][at][mask].all()
        assert len({self.place(row)[0] for row in observations[mask]}) == 1, "two episodes"
        for row in np.flatnonzero(mask[:-1]).tolist():
            number, step = self.place(observations[row])
            assert self.place(observations[row + 1]) == (number, step + 1)
            episode = told_env.WORLD.episodes[number]
            assert mask[row + 1] <= (step + 1 < len(episode.rewards) or not episode.over)


def learnable(life: Life) -> set[tuple[int, int, int]]:
    """All rows that can be drawn: no mere resets, and their successor is stored."""
    block, found = life.block, set()
    for step in life.steps()[:-1]:
        for env in range(ENVS):
            number, at = life.place(block.arrays["observations"][block.index(step), env])
            if at < min(len(told_env.WORLD.episodes[number].rewards), life.stored[number]):
                found.add((0, step, env))
    return found


@contextmanager
def lives(maker: str, capacity: int, seed: int, chance: float) -> Iterator[Life]:
    folder = ShmFolder.create("test")
    try:
        yield Life(folder, maker, capacity, seed, chance)
    finally:
        folder.remove()


patterns = st.one_of(
    st.builds(Uniform, st.just(BATCH), st.integers(1, 4), st.just(GAMMA)),
    st.builds(
        Prioritised, st.just(BATCH), st.just(0.6), st.just(0.4), st.integers(1, 4), st.just(GAMMA)
    ),
    st.builds(Sequences, st.just(BATCH), st.integers(1, 5)),
)
rounds = st.lists(st.one_of(st.integers(1, 6), st.integers(-6, 0)), min_size=1, max_size=12)
"""Rows of a round; or 0: the actor is started anew; or less: that many rows become void, too."""


@settings(max_examples=150, deadline=None)
@given(
    maker=st.sampled_from([*MAKERS, *(f"{maker}_stacked" for maker in MAKERS)]),
    pattern=patterns,
    script=rounds,
    capacity=st.integers(9, 20),
    seed=st.integers(0, 99),
    chance=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
)
def test_every_drawn_row_is_what_happened(
    maker: str, pattern: Pattern, script: list[int], capacity: int, seed: int, chance: float
) -> None:
    with lives(maker, capacity, seed, chance) as life:
        sampler = sampler_of(Draw("learner.update", KEYS, pattern), {0: life.block}, seed)
        for rows in script:
            if rows <= 0:
                life.move(-rows)
                continue
            life.round(rows)
            try:
                batch = DrawnBatch(sampler.sample(), sampler)
            except NothingToSample:
                continue
            for at in range(BATCH):
                if isinstance(pattern, Sequences):
                    life.check_window(batch, at)
                else:
                    life.check(batch, at, pattern.n_step)
            batch.prioritise(np.random.default_rng(seed).random(BATCH))


@settings(max_examples=40, deadline=None)
@given(
    maker=st.sampled_from([*MAKERS, *(f"{maker}_stacked" for maker in MAKERS)]),
    script=rounds,
    seed=st.integers(0, 99),
)
def test_the_row_after_is_what_came_next_without_returns_too(
    maker: str, script: list[int], seed: int
) -> None:
    with lives(maker, 12, seed, 0.3) as life:
        keys = ("observations",)
        sampler = UniformSampler({0: life.block}, keys, BATCH, next_keys=keys, seed=seed)
        for rows in script:
            if rows <= 0:
                life.move(-rows)
                continue
            life.round(rows)
            try:
                batch = sampler.sample()
            except NothingToSample:
                continue
            for at in range(BATCH):
                life.check(batch, at, 1)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("pattern", [Uniform(BATCH), Prioritised(BATCH), Uniform(BATCH, 3)])
def test_every_transition_is_drawn_the_last_of_an_episode_too(
    maker: str, pattern: Uniform | Prioritised
) -> None:
    with lives(maker, 20, 7, 0.3) as life:
        sampler = sampler_of(Draw("learner.update", KEYS, pattern), {0: life.block}, 0)
        for turn in range(8):
            life.round(5)
            if turn == 5:
                life.restart()
        drawn = {tuple(row) for _ in range(20) for row in sampler.sample()["index"].tolist()}
        assert drawn == learnable(life)
        valid = life.block.arrays["valid"]
        assert 0 < (~valid).sum() < valid.size / 2
        assert len(drawn) < valid.sum() - ENVS, "some were given up"


def test_an_environment_that_hides_its_final_observations_is_refused() -> None:
    with pytest.raises(Refused, match=r"told_env:same_step .* autoreset_mode=AutoresetMode.NEXT"):
        Aimless("told_env:same_step", envs=ENVS, final_observations=True).data_keys()


@pytest.mark.parametrize("maker", MAKERS)
def test_the_rows_for_final_observations_are_asked_for(maker: str) -> None:
    actor = Aimless(f"told_env:{maker}", envs=ENVS)
    names = {key.name for key in actor.data_keys()}
    assert ("valid" in names) == (maker == "next_step")
    assert "ages" not in names
    actor.final_observations = True
    assert {key.name for key in actor.data_keys()} == names | {"valid", "ages"}
    assert actor.spec.skips_rows
