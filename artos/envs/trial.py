"""Tries an environment once before a run: what it returns must be what its spaces say."""

from __future__ import annotations

import random
import sys
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from artos.envs.masks import ActionMasks
from artos.envs.shown import Mismatch, pair_of
from artos.envs.spec import MASK, ActionSpec, EnvSpec
from artos.envs.stepper import Stepper
from artos.errors import BadRow, Refused
from artos.specs.keys import MASK_KEY
from artos.system.under_way import under_way


class Tried(NamedTuple):
    """What an environment returned when it was tried."""

    masks: tuple[int, ...] | None
    """The shape of one environment's ``action_mask`` in ``info``; None if there is none."""
    shown: tuple[Any, ...]
    """The first observations, those after the first step, and its rewards."""


def try_out(name: str, env: VectorEnv[Any, Any, Any], spec: EnvSpec) -> Tried:
    """Reset each environment with seed 0, and step it once.

    The global generators of random numbers, which each actor seeds, have the same seed each time.

    Raises:
        Refused: ``reset`` or ``step`` fails, or returns what its spaces do not say.
    """
    masks: tuple[int, ...] | None = None
    torch = sys.modules.get("torch")
    before = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()
    random.seed(0)
    np.random.seed(0)
    if torch:
        torch.manual_seed(0)
    try:
        if not spec.masked:
            with under_way(f"environment {name}", "reset"):
                _, info = pair_of(env.reset(seed=0))
            if MASK in info:
                masks = np.shape(info[MASK][0])
                spec.masked_by_info(masks)
        stepper = Stepper(env, name, masked=masks is not None)
        with under_way(f"environment {name}", "reset"):
            obs = stepper.reset(0)
        began = {key: part.copy() for key, part in obs.items()}
        with under_way(f"environment {name}", "step"):
            step = stepper.step(some_actions(stepper, obs, np.random.default_rng(0)))
    except Mismatch as error:
        raise Refused([f"environment {name}: {error}"]) from error
    except BadRow as error:
        raise Refused([f"environment {name}: {error.__cause__ or error}"]) from error
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        if torch:
            torch.set_rng_state(before[2])
    return Tried(masks, (began, step.obs, step.rewards))


def some_actions(
    stepper: Stepper, obs: dict[str, NDArray[Any]], rng: np.random.Generator
) -> NDArray[Any]:
    """Actions that are allowed after these observations, as they are stored.

    They are random where nothing is masked.
    """
    spec, envs = stepper.spec, stepper.envs
    if spec.masked:
        return ActionMasks(spec, envs).first(obs[MASK_KEY])
    return anything(spec.actions, envs, rng)


def anything(actions: ActionSpec, envs: int, rng: np.random.Generator) -> NDArray[Any]:
    """Random actions, as they are stored."""
    shape = (envs, *actions.shape)
    if actions.kind == "box":
        return rng.uniform(-1, 1, shape).astype(np.float32)
    return rng.integers(0, np.array(actions.sizes).reshape(actions.shape), shape)
