"""Defaults that depend on what the environment shows."""

from __future__ import annotations

from artos.envs.spec import EnvSpec


def step_size(lr: float | None, spec: EnvSpec) -> float:
    """What was asked for, else 2.5e-4 where the environment shows images and 1e-3 elsewhere."""
    if lr is not None:
        return lr
    return 2.5e-4 if shows_images(spec) else 1e-3


def shows_images(spec: EnvSpec) -> bool:
    """Whether any part of an observation has more than one axis."""
    return any(len(part.shape) > 1 for part in spec.parts)
