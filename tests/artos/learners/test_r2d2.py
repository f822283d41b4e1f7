"""R2D2's update against its equations, row by row, on windows of real episodes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from inline_runs import registered
from torch import Tensor

from artos import R2D2
from artos.actors.context import ActorContext
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.samplers.drawn_batch import drawn, sampler_of
from artos.buffer.samplers.sequences import SequenceSampler
from artos.buffer.shm_folder import ShmFolder
from artos.learners.context import LearnerContext
from artos.policies.encoders import normalizers
from artos.policies.recurrent import MEMORY
from artos.policies.recurrent_values import RecurrentQNetwork
from artos.protocol.invocations import Invoke
from artos.specs.keys import VERSION_KEY, DataKey
from triggers.algorithms import r2d2
from triggers.replay import ReplayTrigger

ROWS, GAMMA, N, ETA = 120, 0.9, 2, 0.75
CALL = Invoke(1, "learner.update", "update")
SETTINGS: dict[str, Any] = {
    "length": 5, "burn_in": 3, "batch": 16, "gamma": GAMMA, "n_step": N, "hidden": (8,),
    "memory": 6, "eta": ETA, "envs": 2, "total_steps": 5_000, "max_grad_norm": None,
}  # fmt: skip


@pytest.fixture
def played(tmp_path: Path) -> Iterator[tuple[Any, Any, SequenceSampler]]:
    """A plan, the network that acted, and what draws from the rows of its actor."""
    made = registered("r2d2", tmp_path, **SETTINGS)
    workload = r2d2.workload(**SETTINGS)
    actor: Any = workload.actor
    actor.final_observations = True
    folder = ShmFolder.create("test")
    try:
        keys = (*actor.data_keys(), DataKey(VERSION_KEY, (), "int64", per_env=False))
        spec = BlockSpec(0, keys, 200, 2, (), "overwrite")
        block = ActorBlock.create(folder.path / "b", spec)
        actor.setup(ActorContext(made.plan, 0, 0, block, 5))
        module = actor.build_module(1)
        actor.bind(np.concatenate([p.detach().numpy().ravel() for p in module.parameters()]), 0)
        block.allocate(ROWS)
        actor.sample(0, ROWS, Invoke(0, "", ""))
        block.commit(ROWS)
        trigger = workload.triggers["learner.update"]
        assert isinstance(trigger, ReplayTrigger)
        sampler = sampler_of(trigger.draw, {0: block}, seed=1)
        assert isinstance(sampler, SequenceSampler)
        yield made.plan, module, sampler
        actor.close()
    finally:
        folder.remove()


def h(x: float) -> float:
    return float(np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + 1e-3 * x)


def inverse(y: float) -> float:
    low, high = -1e5, 1e5
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if h(middle) < y else (low, middle)
    return low


def unrolled(module: Any, batch: Any, at: int) -> list[Tensor]:
    """Values (choices,) in each row of a window that is learned from."""
    state = torch.from_numpy(batch[MEMORY][at, :1])
    ages, found = batch["ages"][at], []
    for row, obs in enumerate(torch.from_numpy(batch["observations"][at])):
        state = state * float(row == 0 or ages[row] > 0)
        state = module.memory(module.encoder({"observations": obs[None]})[None], state)[0]
        if row < SETTINGS["burn_in"]:
            state = state.detach()
        found.append(module.values(state, {})[0])
    return found[SETTINGS["burn_in"] :]


def errors_of(module: Any, target: Any, batch: Any, at: int) -> list[Tensor]:
    """The TD errors of the rows of a window that have a successor in it."""
    cut = {name: each[at, SETTINGS["burn_in"] :] for name, each in batch.items() if each.ndim > 1}
    values = unrolled(module, batch, at)
    with torch.no_grad():
        rated = unrolled(target, batch, at)
    found, length = [], SETTINGS["length"]
    for t in np.flatnonzero(cut["mask"]):
        total, row, over = 0.0, int(t), False
        while row < t + N and not over and cut["mask"][row] and (
            cut["terminations"][row] or row + 1 < length
        ):  # fmt: skip
            total += GAMMA ** (row - t) * float(cut["rewards"][row])
            over = bool(cut["terminations"][row])
            row += 1
        if row == t:
            continue
        if not over:
            best = int(values[row].argmax())
            total += GAMMA ** (row - t) * inverse(float(rated[row][best]))
        found.append(values[t][cut["actions"][t]] - h(total))
    return found


def test_an_update(played: Any) -> None:
    plan, module, sampler = played
    learner: Any = R2D2(
        **{name: SETTINGS[name] for name in ("gamma", "n_step", "eta", "max_grad_norm")}
    )
    learner.setup(LearnerContext(plan, copy.deepcopy(module), 5))
    with torch.no_grad():  # a target of its own
        for each in learner.target.module.parameters():
            each.add_(0.1)
    batch = drawn(sampler, 0, 0.0)
    kept = {name: np.copy(batch[name]) for name in batch}
    weights = torch.from_numpy(np.copy(batch.weights))
    mine, target = copy.deepcopy(learner.module), copy.deepcopy(learner.target.module)
    mine.requires_grad_(True)
    metrics = learner.update(batch, CALL)
    each = [errors_of(mine, target, kept, at) for at in range(SETTINGS["batch"])]
    assert {len(errors) for errors in each} > {4}, "some windows end with an episode"
    loss = sum(w * e.square() for w, errors in zip(weights, each, strict=True) for e in errors)
    loss = loss / sum(map(len, each))
    assert metrics["loss"] == pytest.approx(loss.item(), rel=1e-3)
    wanted = {}
    for at, errors in enumerate(each):
        sizes = [abs(e.item()) for e in errors]
        place = tuple(kept["index"][at].tolist())
        wanted[place] = ETA * max(sizes) + (1 - ETA) * sum(sizes) / len(sizes)
    for (_, step, env), priority in wanted.items():
        leaf = (step + SETTINGS["burn_in"]) % 200 * 2 + env
        assert sampler.priorities._tree.leaves[leaf] == pytest.approx(priority**0.9, rel=1e-2)
    optimizer = torch.optim.Adam(mine.parameters(), learner.settings.lr, eps=1e-5)
    loss.backward()
    optimizer.step()
    stepped = torch.cat([p.detach().reshape(-1) for p in mine.parameters()])
    found = learner.network.values[: learner.network.count]
    torch.testing.assert_close(found, stepped, rtol=1e-3, atol=1e-4)


def test_statistics_count_the_rows_that_are_learned_from(played: Any) -> None:
    """Not those that warm up the memory, nor what is behind the end of an episode."""
    plan, _, sampler = played
    spec = r2d2.workload(**SETTINGS).actor.spec
    module = RecurrentQNetwork(spec, width=SETTINGS["memory"], normalize=True)
    learner: Any = R2D2(sync=1)
    learner.setup(LearnerContext(plan, module, 5))
    batch = drawn(sampler, 0, 0.0)
    seen = np.copy(batch["observations"])[np.copy(batch["mask"])]
    (normalizer,) = normalizers(learner.module)
    assert not np.copy(batch["mask"])[:, SETTINGS["burn_in"] :].all(), "some episodes end"
    learner.update(batch, CALL)
    assert normalizer.count.item() == len(seen)
    np.testing.assert_allclose(normalizer.mean, seen.mean(0), rtol=1e-4)
    np.testing.assert_allclose(normalizer.var, seen.var(0), rtol=1e-3)


@pytest.mark.parametrize(("name", "value"), [("eta", 2.0), ("n_step", 0), ("gamma", -1.0)])
def test_settings_out_of_range_are_told(name: str, value: float) -> None:
    settings: dict[str, Any] = {name: value}
    (fault,) = R2D2(**settings).out_of_range()
    assert name in fault


def test_in_bfloat16_an_update_is_nearly_the_same(played: Any) -> None:
    plan, module, sampler = played
    batch, found = drawn(sampler, 0, 0.0), []
    for bfloat16 in (False, True):
        learner: Any = R2D2(bfloat16=bfloat16)
        learner.setup(LearnerContext(plan, copy.deepcopy(module), 5))
        found.append(learner.update(batch, CALL))
    exact, rounded = found
    assert rounded == pytest.approx(exact, rel=0.05, abs=0.02)
    assert rounded != exact
