"""SAC on pictures cut in two: rows follow each other, updates learn, sizes are those of ours."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from artos.actors.rollout import RolloutActor
from artos.policies.critics import Critics as OurCritics
from artos.policies.squashed import Softmax
from evaluation.baselines.split_pictures_sac import Critics, Learner, Policy, Sampler
from evaluation.baselines.split_sac import Settings

pytestmark = pytest.mark.usefixtures("one_thread")

CATCH = "evaluation.workloads.catch:make"
SMALL = Settings(env=CATCH, total_steps=1_000, steps=60, batch=16, hidden=(32,), lr=1e-3)


def test_networks_are_as_large_as_those_of_artos() -> None:
    spec = RolloutActor(CATCH, None, 1).spec
    for ours, theirs in (
        (Softmax(spec, (32,)), Policy(1, 3, (32,))),
        (OurCritics(spec, (32,)), Critics(1, 3, (32,))),
    ):
        sizes = [sum(p.numel() for p in network.parameters()) for network in (ours, theirs)]
        assert sizes[0] == sizes[1]


def test_rows_follow_each_other_within_an_episode() -> None:
    sampler = Sampler(SMALL, seed=1)
    rounds = [sampler.sample({}, -1, random=True) for _ in range(4)]
    seen, after = (np.concatenate([getattr(r.rows, n) for r in rounds]) for n in ("seen", "after"))
    ended = np.concatenate([found.rows.ended for found in rounds])
    follows = (after[:-1] == seen[1:]).reshape(len(seen) - 1, -1).all(1)
    assert follows[ended[:-1] == 0].all()
    assert seen.shape == (240, 1, 84, 84)
    returns = [value for found in rounds for value in found.returns]
    assert len(returns) == int(ended.sum()) > 0
    rewards = np.concatenate([found.rows.rewards for found in rounds])
    assert returns[0] == rewards[: np.flatnonzero(ended)[0] + 1].sum()


def test_it_learns_what_the_last_step_of_an_episode_is_worth() -> None:
    torch.manual_seed(1)
    learner, sampler = Learner(SMALL, seed=1), Sampler(SMALL, seed=1)
    rows = sampler.sample(learner.weights(), 0, random=False).rows
    alone = rows._replace(ended=np.ones_like(rows.ended))  # nothing follows
    learner.replay.add(alone)
    actions = torch.tensor(alone.actions).expand(2, -1)[..., None]

    def error() -> float:
        with torch.no_grad():
            values = learner.critics(torch.tensor(alone.seen)).gather(2, actions)[..., 0]
        return float((values - torch.tensor(alone.rewards)).square().mean())

    before = error()
    for _ in range(40):
        learner.learn()
    assert error() < before / 2
    assert learner.updates == 40
