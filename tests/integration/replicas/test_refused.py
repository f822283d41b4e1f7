"""What replicas cannot do is said before anything is started, all of it at once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT

from artos.runtime.register import register
from artos.runtime.replicable import device_of_replica
from head.run.request import reference_of


def faults(workload: str, folder: Path, **settings: Any) -> tuple[str, ...]:
    return register(reference_of(workload, settings, folder), 1).faults


ONE = {"actors": 1, "envs": 1}
FEW = {"actors": 1, "envs": 1, "steps": 8, "minibatches": 4}


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
        ("crossq", {"learners": 2, "compile": "on"}, "learners=2 in mid-pass, which is not comp"),
        ("my_algo.py:workload", {"learners": 2}, "A2C makes its updates alone"),
    ],
)
def test_by_name(workload: str, settings: dict[str, Any], said: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs" / "examples" / "my_algo.py", tmp_path)
    assert any(said in fault for fault in faults(workload, tmp_path, **settings))


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
