"""Data sets of Minari's, as rows that an actor of the same environment would have written."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import minaris
import numpy as np
import pytest
from gymnasium import spaces
from minaris import needs_minari

from artos import RolloutActor
from artos.buffer.layout import BlockSpec
from artos.buffer.samplers.drawn_batch import drawn, sampler_of
from artos.buffer.samplers.patterns import Draw, Uniform
from artos.buffer.shm_folder import ShmFolder
from artos.runs.data_sets import examined, filled
from artos.specs.data import Rows
from artos.specs.keys import DataKey

ROW = ("observations", "actions", "rewards", "terminations", "truncations")


def keys_of(env: str, **arguments: Any) -> tuple[DataKey, ...]:
    actor = RolloutActor(env, final_observations=True, env_args=arguments)
    names = (*ROW, "valid", "ages")
    return tuple(key for key in actor.data_keys() if key.name in names)


@pytest.fixture(autouse=True)
def minari(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minaris.at(tmp_path, monkeypatch)


@needs_minari
@pytest.mark.parametrize(
    ("env", "arguments"), [("CartPole-v1", {}), ("Pendulum-v1", {"max_episode_steps": 7})]
)
def test_transitions_are_those_that_minari_has(
    env: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    episodes = minaris.collected(gym.make(env, **arguments), "tests/one-v0", 5)
    keys, faults = keys_of(env, **arguments), list[str]()
    (data_set,) = examined({"demos": Rows("minari:tests/one-v0")}, "", keys, faults)
    assert faults == []
    assert data_set.rows == sum(len(each) + 1 for each in episodes)
    assert [key.name for key in data_set.keys] == [key.name for key in keys]
    shm = ShmFolder.create("minari")
    try:
        block = filled(
            shm.path / "data", BlockSpec(0, keys, data_set.rows, 1, (), "overwrite"), data_set, {}
        )
        draw = Draw("learner.update", ROW, Uniform(400), None, {"demos": 400})
        batch = drawn(sampler_of(draw, {}, 1, {"demos": block}), 0, 0.0)
        first = np.cumsum([0, *(len(each) + 1 for each in episodes)])
        seen = set()
        for row, (_, step, _) in enumerate(batch.index.tolist()):
            number = int(np.searchsorted(first, step, "right")) - 1
            episode, place = episodes[number], step - first[number]
            seen.add((number, place))
            np.testing.assert_array_equal(
                batch["observations"][row], episode.observations[place].astype(np.float32)
            )
            np.testing.assert_array_equal(
                batch["next.observations"][row], episode.observations[place + 1]
            )
            np.testing.assert_array_equal(batch["actions"][row], episode.actions[place])
            assert batch["rewards"][row] == np.float32(episode.rewards[place])
            assert batch["terminations"][row] == episode.terminations[place]
            assert batch["truncations"][row] == episode.truncations[place]
        assert all(place < len(episodes[number]) for number, place in seen)
    finally:
        shm.remove()


class Shifted(gym.Env[Any, Any]):
    """Choices and observations counted from another number than 0, in a Dict."""

    observation_space = spaces.Dict({"place": spaces.Discrete(5, start=10)})
    action_space = spaces.Discrete(3, start=-1)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.steps = 0
        return {"place": 10}, {}

    def step(self, action: int) -> Any:
        self.steps += 1
        return {"place": 10 + self.steps}, float(action), self.steps == 4, False, {}


@needs_minari
def test_categories_are_counted_from_0_and_parts_have_keys_of_their_own() -> None:
    from artos.runs import minari_sets  # noqa: PLC0415

    (episode,) = minaris.collected(Shifted(), "shifted-v0", 1)
    rows = minari_sets.read(minari_sets.located("shifted-v0"))
    assert rows["observations.place"].tolist() == [0, 1, 2, 3, 4]
    assert (rows["actions"][:4] - 1).tolist() == episode.actions.tolist()
    assert rows["rewards"][:4].tolist() == episode.rewards.tolist()
    assert rows["valid"].tolist() == [True] * 4 + [False]
    assert rows["ages"].tolist() == [0, 1, 2, 3, 4]


@needs_minari
def test_another_environments_set_and_one_that_is_not_there_are_refused_by_name(
    tmp_path: Path,
) -> None:
    minaris.collected(gym.make("CartPole-v1"), "poles-v0", 1)
    faults: list[str] = []
    data = {"demos": Rows("minari:poles-v0"), "more": Rows("minari:pole-v0")}
    examined(data, "", keys_of("Pendulum-v1"), faults)
    said = "\n".join(faults)
    assert "data['demos']: 'observations' has shape (" in said
    assert "data['demos']: 'actions' is int64, the run's rows have float32" in said
    assert f"data['more']: there is no data set in {tmp_path}/pole-v0/data: fetch it by" in said


@needs_minari
@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"id": "CartPole-v1", "entry_point": "os:mkdir", "kwargs": {"path": "called"}}, "call os"),
        ({"id": "Mine-v0", "entry_point": "os:mkdir", "kwargs": {"path": "called"}}, "call os:mk"),
        ({"id": "CartPole-v1"}, "neither spaces nor an env_spec"),
        (None, "neither spaces nor an env_spec"),
    ],
)
def test_no_data_set_says_what_is_called(
    spec: dict[str, Any] | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without spaces Minari makes the environment as the data set says."""
    monkeypatch.chdir(tmp_path)
    minaris.collected(gym.make("CartPole-v1"), "poles-v0", 1)
    file = tmp_path / "poles-v0" / "data" / "metadata.json"
    found = json.loads(file.read_text())
    del found["observation_space"]
    file.write_text(json.dumps(found | {"env_spec": json.dumps(spec)}))
    faults: list[str] = []
    examined({"demos": Rows("minari:poles-v0")}, "", keys_of("CartPole-v1"), faults)
    assert re.search(says, "\n".join(faults))
    assert not (tmp_path / "called").exists()


@needs_minari
def test_one_without_spaces_is_that_of_its_environment(tmp_path: Path) -> None:
    env = gym.make("CartPole-v1")
    assert env.spec is not None
    text = env.spec.to_json()
    minaris.collected(env, "poles-v0", 1)
    file = tmp_path / "poles-v0" / "data" / "metadata.json"
    found = json.loads(file.read_text())
    del found["observation_space"], found["action_space"]
    file.write_text(json.dumps(found | {"env_spec": text}))
    faults: list[str] = []
    examined({"demos": Rows("minari:poles-v0")}, "", keys_of("CartPole-v1"), faults)
    assert faults == []


def test_without_minari_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    faults: list[str] = []
    examined({"demos": Rows("minari:poles-v0")}, "", keys_of("CartPole-v1"), faults)
    (fault,) = faults
    assert "data['demos']: data sets of Minari's need the extra minari" in fault
    assert "pip install 'artos[minari]'" in fault
