"""Two replicas learn what one learner does with the whole of each batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from together import Together

pytestmark = pytest.mark.processes

PPO = {"actors": 3, "envs": 2, "steps": 17, "hidden": [16], "minibatches": 2, "epochs": 2}
"""51 rows in a minibatch, which do not divide by two."""


def learned(workload: str, replicas: int, folder: Path, **settings: Any) -> list[Any]:
    found = []
    with Together(workload, replicas, folder, rounds=0, **settings) as run:
        for _ in range(3):
            claims = run.sample()
            done = run.update(*claims)
            found.append((run.arrays, done.metrics))
    return found


@pytest.mark.parametrize("more", [{}, {"normalize": True}, {"recurrent": True}])
def test_ppo(more: dict[str, Any], tmp_path: Path) -> None:
    one = learned("ppo", 1, tmp_path, **PPO | more)
    two = learned("ppo", 2, tmp_path, **PPO | more)
    for (arrays, metrics), (halves, summed) in zip(one, two, strict=True):
        assert arrays.keys() == halves.keys()
        for name, array in arrays.items():
            np.testing.assert_allclose(halves[name], array, rtol=1e-3, atol=2e-5, err_msg=name)
        assert summed == pytest.approx(metrics, rel=1e-3, abs=1e-4)
