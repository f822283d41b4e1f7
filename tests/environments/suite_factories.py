"""Factories as users write them for suites that need one."""

from __future__ import annotations

from typing import Any

import numpy as np


def pistonball() -> Any:
    import supersuit  # noqa: PLC0415
    from pettingzoo.butterfly import pistonball_v6  # noqa: PLC0415

    game = pistonball_v6.parallel_env(n_pistons=3, max_cycles=10)
    game = supersuit.resize_v1(supersuit.color_reduction_v0(game, mode="B"), x_size=84, y_size=84)
    rows = supersuit.pettingzoo_env_to_vec_env_v1(game)
    return supersuit.concat_vec_envs_v1(rows, 2, num_cpus=0, base_class="gymnasium")


def treasure() -> Any:
    import mo_gymnasium  # noqa: PLC0415
    from mo_gymnasium.wrappers import LinearReward  # noqa: PLC0415

    return LinearReward(mo_gymnasium.make("deep-sea-treasure-v0"), weight=np.array([0.8, 0.2]))
