"""An environment is tried once before a run: what it returns is what its spaces say."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from artos.envs.masks import ActionMasks
from artos.envs.shown import Mismatch, pair_of
from artos.envs.spec import MASK, ActionSpec, EnvSpec
from artos.envs.stepper import Stepper
from artos.errors import BadRow, Refused
from artos.spec import MASK_KEY
from artos.system.under_way import under_way


def try_out(name: str, env: VectorEnv[Any, Any, Any], spec: EnvSpec) -> tuple[int, ...] | None:
    """Reset and step each environment once.

    Returns the shape of one environment's ``action_mask`` in ``info``, None if there is none.

    Raises:
        Refused: ``reset`` or ``step`` fails, or returns what its spaces do not say, by name.
    """
    try:
        masks: tuple[int, ...] | None = None
        if not spec.masked:
            with under_way(f"environment {name}", "reset"):
                _, info = pair_of(env.reset(seed=0))
            if MASK in info:
                masks = np.shape(info[MASK][0])
                spec.masked_by_info(masks)
        stepper = Stepper(env, name, masked=masks is not None)
        with under_way(f"environment {name}", "reset"):
            obs = stepper.reset(0)
        with under_way(f"environment {name}", "step"):
            stepper.step(some_actions(stepper, obs, np.random.default_rng(0)))
    except Mismatch as error:
        raise Refused([f"environment {name}: {error}"]) from error
    except BadRow as error:
        raise Refused([f"environment {name}: {error.__cause__ or error}"]) from error
    return masks


def some_actions(
    stepper: Stepper, obs: dict[str, NDArray[Any]], rng: np.random.Generator
) -> NDArray[Any]:
    """Actions that are allowed after these observations, as they are stored: random, if all are."""
    spec, envs = stepper.spec, stepper.envs
    if spec.masked:
        return ActionMasks(spec, envs).first(obs[MASK_KEY])
    return _anything(spec.actions, envs, rng)


def _anything(actions: ActionSpec, envs: int, rng: np.random.Generator) -> NDArray[Any]:
    shape = (envs, *actions.shape)
    if actions.kind == "box":
        return rng.uniform(-1, 1, shape).astype(np.float32)
    return rng.integers(0, np.array(actions.sizes).reshape(actions.shape), shape)
