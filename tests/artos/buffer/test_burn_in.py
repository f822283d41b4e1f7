"""Windows with burn-in: their rows, the state they warm up, and where gradients end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from buffer_helpers import temporary_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_runs import registered
from sampler_helpers import NAMES, blocks_of, histories
from torch import nn

from artos.actors.context import ActorContext
from artos.actors.rollout import RolloutActor
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.samplers.drawn_batch import DrawnBatch, drawn, sampler_of
from artos.buffer.samplers.patterns import Draw, Sequences
from artos.buffer.samplers.sequences import SequenceSampler
from artos.learners.sequences import Windows, windows
from artos.protocol.invocations import Invoke
from artos.specs.keys import VERSION_KEY, DataKey

ROW = ("observations", "actions", "rewards", "terminations", "truncations", "memory")
ENVS, ROWS, LENGTH = 3, 90, 5


@settings(max_examples=40)
@given(
    length=st.integers(1, 5),
    burn_in=st.integers(1, 4),
    rows=st.integers(14, 30),
    chance=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 99),
)
def test_rows_of_the_burn_in_are_there_and_never_count(
    length: int, burn_in: int, rows: int, chance: float, seed: int
) -> None:
    """Whatever ended among them: what counts is as in a window that begins after them."""
    with temporary_folder() as path:
        made = histories(path, 2, 2, 14, rows, seed, chance)
        sampler = SequenceSampler(blocks_of(made), NAMES, 12, length, burn_in=burn_in, seed=seed)
        sample = sampler.sample()
        assert sample["mask"].shape == (12, burn_in + length)
        for place, (actor, start, env) in enumerate(sample["index"].tolist()):
            going = True
            for offset in range(burn_in + length):
                row = made[actor].rows[start + offset]
                for name in NAMES:
                    want = made[actor].value(name, start + offset, env)
                    np.testing.assert_array_equal(sample[name][place, offset], want)
                learned = offset >= burn_in
                assert sample["mask"][place, offset] == (learned and going)
                ended = row["terminations"][env] or row["truncations"][env]
                going = going and not (learned and ended)


class Remembering(nn.Module):
    """Adds up what it saw in the episode, in its own way."""

    outputs: tuple[str, ...] = ()
    state = (DataKey("memory", (4,)),)

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.cell = nn.GRUCell(spec.parts[0].shape[0], 4)

    def act(self, obs: Any, info: Any) -> Any:
        memory = self.cell(obs["observations"], info.state["memory"])
        return {"actions": torch.zeros(len(memory), dtype=torch.int64), "memory": memory}

    def unroll(self, obs: Any, state: Any, ends: Any) -> Any:
        memory, found = state["memory"], []
        for x, over in zip(obs["observations"], ends, strict=True):
            memory = self.cell(x, memory)
            found.append(memory)
            memory = memory * ~over.unsqueeze(1)
        return torch.stack(found), {"memory": memory}


@pytest.fixture
def played(tmp_path: Path) -> Iterator[tuple[RolloutActor, ActorBlock, Remembering]]:
    """An actor's block after rounds with fixed weights, with short episodes that end both ways."""
    actor = RolloutActor("CartPole-v1", Remembering, ENVS, final_observations=True)
    with temporary_folder() as folder:
        keys = (*actor.data_keys(), DataKey(VERSION_KEY, (), "int64", per_env=False))
        block = ActorBlock.create(folder / "b", BlockSpec(0, keys, 100, ENVS, (), "overwrite"))
        plan = registered("dqn", tmp_path, total_steps=2_000).plan
        actor.setup(ActorContext(plan, 0, 0, block, 5))
        module = actor.build_module(1)
        actor.bind(np.concatenate([p.detach().numpy().ravel() for p in module.parameters()]), 0)
        block.allocate(ROWS)
        actor.sample(0, ROWS, Invoke(0, "", ""))
        block.commit(ROWS)
        yield actor, block, module
        actor.close()


def drawn_windows(block: ActorBlock, burn_in: int) -> tuple[DrawnBatch, Windows]:
    draw = Draw("learner.update", ROW, Sequences(64, LENGTH, burn_in))
    batch = drawn(sampler_of(draw, {0: block}, seed=1), 0, 0.0)
    return batch, windows(batch, ("memory",), torch.from_numpy)


@pytest.mark.parametrize("burn_in", [0, 1, 7])
def test_warmed_up_it_is_the_state_that_the_actor_had(burn_in: int, played: Any) -> None:
    """With the weights that acted; from the first row on, over the ends of episodes."""
    _, block, module = played
    batch, found = drawn_windows(block, burn_in)
    assert (batch["ages"][:, 1 : burn_in + 1] == 0).any() == (burn_in > 0), "episodes end there"
    state = found.warmed_up(module.unroll)["memory"]
    assert not state.requires_grad
    stored = torch.from_numpy(batch["memory"][:, burn_in])
    torch.testing.assert_close(state, stored, rtol=1e-4, atol=1e-5)
    assert stored.abs().max() > 0.1
    out, _ = module.unroll(found.learned.obs, {"memory": state}, found.learned.ends)
    later = torch.from_numpy(batch["memory"][:, burn_in:]).transpose(0, 1)
    torch.testing.assert_close(
        (out * ~found.learned.ends.unsqueeze(2))[:-1], later[1:], rtol=1e-4, atol=1e-5
    )


def test_all_rows_are_time_first_and_the_burn_in_is_cut_off(played: Any) -> None:
    _, block, _ = played
    batch, found = drawn_windows(block, 3)
    assert batch.burn_in == found.burn_in == 3
    np.testing.assert_array_equal(
        found.obs["observations"], batch["observations"].transpose(1, 0, 2)
    )
    np.testing.assert_array_equal(found.state["memory"], batch["memory"][:, 0])
    learned = found.learned
    assert learned.mask.shape == learned.ends.shape == (LENGTH, 64)
    assert set(learned.rows) >= {"actions", "rewards", "terminations", "truncations", "ages"}
    np.testing.assert_array_equal(learned.rows["actions"], batch["actions"].T[3:])
    np.testing.assert_array_equal(learned.mask, batch["mask"].T[3:])
    assert not batch["mask"][:, :3].any()
    np.testing.assert_array_equal(found.ends[:-1], batch["ages"].T[1:] == 0)


def test_gradients_end_at_the_burn_in(played: Any) -> None:
    _, block, module = played
    _, found = drawn_windows(block, 3)
    found.obs["observations"].requires_grad_()
    state = found.warmed_up(module.unroll)
    out, _ = module.unroll(found.learned.obs, state, found.learned.ends)
    out.sum().backward()
    gradient = found.obs["observations"].grad
    assert gradient is not None
    assert gradient[3:].abs().sum() > 0
    assert gradient[:3].abs().sum() == 0
