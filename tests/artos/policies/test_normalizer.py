"""Running statistics: those of all rows, whatever the batches, and the same for actors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from spaces_for_tests import DISCRETE, FLAT, MIXED, VECTOR, random_obs, spec_with
from torch import Tensor

from artos.envs.spec import EnvSpec, Part
from artos.policies.acting import ActInfo
from artos.policies.build import Policy
from artos.policies.encoders import Encoder, Normalizer, flatten_all
from artos.policies.fast import FastMlp, make_actor
from artos.policies.flat import named_tensors


def observed(spec: EnvSpec, rows: int, seed: int) -> dict[str, Tensor]:
    return {name: torch.from_numpy(part) for name, part in random_obs(spec, rows, seed).items()}


@pytest.mark.parametrize("parts", [(VECTOR,), FLAT])
def test_statistics_are_those_of_all_rows(parts: tuple[Part, ...]) -> None:
    spec = spec_with(DISCRETE, *parts)
    module, seen = Normalizer(parts), []
    for seed, rows in enumerate((1, 7, 300)):
        obs = observed(spec, rows, seed)
        module.update(obs)
        seen.append(flatten_all(parts, obs))
    rows_seen = torch.cat(seen)
    real = module.real
    torch.testing.assert_close(module.mean[real], rows_seen.mean(0)[real])
    torch.testing.assert_close(module.var[real], rows_seen.var(0, correction=0)[real])
    assert module.count.item() == len(rows_seen)
    scaled = module(rows_seen)
    assert torch.equal(scaled[:, ~real], rows_seen[:, ~real])
    torch.testing.assert_close(scaled[:, real].std(0, correction=0), torch.ones(int(real.sum())))
    assert module(1e6 * torch.ones_like(rows_seen))[:, real].max() == 10


def test_one_row_has_no_variance_and_none_changes_nothing() -> None:
    module, rows = Normalizer((VECTOR,)), torch.tensor([[3.0], [5.0]]).expand(2, 5)
    for count, mean, var in ((0, 0.0, 1.0), (1, 3.0, 1.0), (0, 3.0, 1.0)):
        module.update({"observations": rows[:count]})
        assert module.mean.tolist() == [mean] * 5
        assert module.var.tolist() == [var] * 5
    module.update({"observations": rows[1:]})
    assert module.mean.tolist() == [4.0] * 5
    assert module.var.tolist() == [1.0] * 5  # of 3 and 5
    module.update({"observations": torch.full((2, 5), 4.0)})
    assert module.var.tolist() == [0.5] * 5


@pytest.mark.parametrize("parts", [(VECTOR,), FLAT])
def test_actors_scale_as_the_learner_does(parts: tuple[Part, ...]) -> None:
    spec = spec_with(DISCRETE, *parts)
    module = Policy(normalize=True).build(spec, 0)
    assert module.normalizer is not None
    for seed in range(3):
        module.normalizer.update(observed(spec, 50, seed))
    actor = make_actor(Policy(normalize=True).build(spec, 1), spec, 0)
    assert isinstance(actor, FastMlp)
    tensors = named_tensors(module).values()
    actor.bind(np.concatenate([t.detach().numpy().ravel() for t in tensors]))
    obs = random_obs(spec, 6, 9)
    obs = {name: part * 40 if part.dtype.kind == "f" else part for name, part in obs.items()}  # type: ignore[operator]
    acted = actor.act(obs, ActInfo())
    with torch.no_grad():
        tensors_of = {name: torch.from_numpy(part) for name, part in obs.items()}
        logs, _, values = module.evaluate(tensors_of, torch.from_numpy(acted["actions"]))
    np.testing.assert_allclose(acted["values"], values, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(acted["log_probs"], logs, rtol=1e-4, atol=1e-5)


def test_pictures_and_categories_are_left_alone() -> None:
    spec = spec_with(DISCRETE, *MIXED)
    torch.manual_seed(0)
    plain = Encoder(spec)
    torch.manual_seed(0)
    scaled = Encoder(spec, normalize=True)
    obs = observed(spec, 4, 0)
    assert torch.equal(plain(obs), scaled(obs))
    assert scaled.normalizer is not None
    scaled.normalizer.update(obs)
    picture, ram, categories, grid = plain(obs).split((512, 6, 14, 6), 1)
    seen = scaled(obs).split((512, 6, 14, 6), 1)
    assert torch.equal(picture, seen[0])
    assert torch.equal(categories, seen[2])
    assert not torch.equal(ram, seen[1])
    assert not torch.equal(grid, seen[3])
