"""What replicas cannot do is said before anything is started, all of it at once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT, SUPPORT

from artos.runtime.register import register
from artos.runtime.replicable import device_of_replica
from head.run.request import reference_of


def faults(workload: str, folder: Path, **settings: Any) -> tuple[str, ...]:
    return register(reference_of(workload, settings, folder), 1).faults


ONE = {"actors": 1, "envs": 1}
FEW = {"actors": 1, "envs": 1, "steps": 8, "minibatches": 4}
HANDS_OVER = "triggers['learner.update'] hands over 1 {}, which learners=2 cannot divide: raise "


@pytest.mark.parametrize(
    ("workload", "settings", "said"),
    [
        ("ppo", {"learners": 0}, "learners must be at least 1, not 0"),
        ("ppo", {"learners": 3, **FEW}, "a minibatch has 2 rows, which learners=3 cannot divide"),
        (
            "ppo",
            {"learners": 2, "recurrent": True, "actors": 2, "envs": 2, "minibatches": 4},
            "a minibatch has 1 whole sequence, which learners=2 cannot divide",
        ),
        ("ppo", {"learners": 65}, "learners=65: there can be 64 at most"),
        ("dqn", {"learners": 3, "batch": 2}, "draws 2 rows, which learners=3 cannot divide"),
        ("a2c", {"learners": 3, **ONE, "steps": 2}, "a minibatch has 2 rows, which learners=3"),
        ("impala", {"learners": 3, **ONE, "steps": 2, "n": 1}, "2 rows, which learners=3 cannot"),
        ("trpo", {"learners": 3, **FEW}, "a minibatch has 2 rows, which learners=3 cannot divide"),
        ("es", {"learners": 2, "actors": 1, "envs": 2}, "from 1 pair of environments, which"),
        ("grpo", {"learners": 5, "actors": 1, "groups": 1, "group": 4}, "from 4 completions, whi"),
        (
            "ppo",
            {"learners": 2, "recurrent": True, "pipeline": "full", **ONE, "minibatches": 1},
            "a minibatch has 1 whole sequence, which learners=2 cannot divide",
        ),
        ("a2c", {"learners": 3, **ONE, "steps": 2}, "hands over 2 rows, which learners=3 cannot"),
        ("my_replicas.py:workload", {"learners": 2, **ONE, "steps": 1}, HANDS_OVER.format("row")),
        ("crossq", {"learners": 2, "compile": "on"}, "learners=2 in mid-pass, which is not comp"),
        ("my_algo.py:workload", {"learners": 2}, "A2C makes its updates alone"),
    ],
)
def test_by_name(workload: str, settings: dict[str, Any], said: str, tmp_path: Path) -> None:
    for example in ("my_algo.py", "my_replicas.py"):
        shutil.copy(ROOT / "docs" / "examples" / example, tmp_path)
    assert any(said in fault for fault in faults(workload, tmp_path, **settings))


@pytest.mark.parametrize(
    ("learners", "said"),
    [
        ("model=3", "hands over 2 rows, which learners=model=3 cannot divide"),
        ("learner=17", "a minibatch has 16 rows, which learners=learner=17 cannot divide"),
        ("modell=2", "learners names 'modell', which is no learner: did you mean model? (have"),
        ({"model": 0}, "learners['model'] must be at least 1, not 0"),
        ("model=two", "learners['model']='two': write a whole number"),
        ("model=65", "learners=model=65: there can be 64 at most"),
    ],
)
def test_replicas_of_one_learner_name_it(learners: Any, said: str, tmp_path: Path) -> None:
    shutil.copy(SUPPORT / "divided_model.py", tmp_path)
    (fault, *others) = faults(
        "divided_model.py:workload", tmp_path, learners=learners, size=1, envs=1
    )
    assert said in fault
    assert others == [each for each in others if "model" in each]


def test_one_row_for_each_is_enough(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs" / "examples" / "my_replicas.py", tmp_path)
    assert not faults("my_replicas.py:workload", tmp_path, actors=2, envs=1, steps=1, learners=2)


def test_rows_that_only_prepare_an_update_need_not_be_divided(tmp_path: Path) -> None:
    settings = {"actors": 4, "envs": 1, "steps": 1, "minibatches": 1, "pipeline": "dual"}
    assert not faults("ppo", tmp_path, learners=2, **settings)


def test_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARTOS_DEVICES", "cpu:0")
    shutil.copy(ROOT / "docs" / "examples" / "my_algo.py", tmp_path)
    settings = {"learners": 3, "device": "pool"}
    several = "\n".join(faults("my_algo.py:workload", tmp_path, **settings))
    assert "A2C makes its updates alone" in several
    assert "learners=3 lease a device each" in several
    several = "\n".join(faults("ppo", tmp_path, **settings, **FEW))
    assert "a minibatch has 2 rows, which learners=3 cannot divide" in several
    assert "learners=3 lease a device each, and the pool of this machine has only cpu:0" in several
    monkeypatch.setenv("ARTOS_DEVICES", "cpu:0,cpu:1")
    assert not faults("ppo", tmp_path, learners=2, device="pool")


def test_each_has_a_gpu_of_its_own() -> None:
    assert [device_of_replica("cuda:1", rank) for rank in range(3)] == [
        "cuda:1",
        "cuda:2",
        "cuda:3",
    ]
    assert [device_of_replica(name, 1) for name in ("cuda", "cpu")] == ["cuda:1", "cpu"]
