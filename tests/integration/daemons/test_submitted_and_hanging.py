"""An environment that never answers at registration is named to who submitted it; others go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from real_cluster import Cluster

pytestmark = [pytest.mark.processes, pytest.mark.long]

ENVIRONMENT = """
import threading
import gymnasium as gym
import numpy as np

class Hangs(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        threading.Event().wait()
"""


def test_it_is_named_to_the_submitter_and_its_place_is_free_again(
    cluster: Cluster, code: Path
) -> None:
    (code / "slow.py").write_text(ENVIRONMENT)
    cluster.start_worker("w1", "--slots", 1)
    cluster.alive("w1")
    hanging = ("ppo", "--env", "slow:Hangs", "--actors", 1, "--deadline", 8)
    submit = cluster.submit(*hanging, cwd=code)
    assert submit.wait() == 2, cluster.story()
    named = "environment slow:Hangs: no answer to reset within 8 s"
    assert named in submit.said
    ((name, run),) = cluster.status()[1].items()
    assert (run["outcome"], run["actors"]) == ("refused", 0)
    assert named in run["why"]
    cluster.until(lambda: cluster.left() == [])
    # The only slot is there for the next one.
    small = ("ppo", "--actors", 1, "--total-steps", 64, "--set", "steps=16", "--set", "envs=1")
    after = cluster.submit(*small, "--set", "minibatches=1", "--json")
    assert after.wait() == 0, cluster.story()
    assert json.loads(after.out)["steps"] == 64
    assert cluster.status()[1][name]["outcome"] == "refused"
    assert cluster.stop() == {"w1": 0, "head": 0}
