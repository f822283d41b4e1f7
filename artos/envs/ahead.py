"""Makes environments before it is known which actor will step them."""

from __future__ import annotations

from gymnasium.vector import AutoresetMode

from artos.envs.make import AnyVectorEnv, accepted, factory_of, is_factory, make_vector


def make_ahead(env: str, envs: int, autoreset: AutoresetMode) -> AnyVectorEnv | None:
    """``make_vector`` without a seed; None if the factory takes a seed, and so must wait for it.

    Raises:
        Refused: as ``make_vector``.
    """
    if is_factory(env) and accepted(factory_of(env), {"seed": 0}):
        return None
    return make_vector(env, envs, autoreset=autoreset)
