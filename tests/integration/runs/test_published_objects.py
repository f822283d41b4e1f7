"""A user's learner publishes an object: it fires a trigger, is saved, and is there on resuming."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from artos.errors import Refused
from deploy.local.run import resume, run
from head.run.request import Request

OWN = """
from dataclasses import dataclass, replace

from artos import PPO, ObjectKey, ScalingPolicy
from triggers import ObjectKeyTrigger, Once, ValueTrigger
from triggers.algorithms.ppo import workload as ppo


class Counting(PPO):
    objects = (*PPO.objects, ObjectKey("counts", (2,), "int64"))
    non_publishing = (*PPO.non_publishing, "noticed")

    def update(self, batch, call):
        metrics = super().update(batch, call)
        before = self.published("counts")
        seen = 0 if before is None else int(before[0])
        self.publish("counts", [seen + len(batch), 0])
        return metrics | {"seen": float(seen + len(batch))}

    def noticed(self, batch, call):
        assert batch is None
        return {"noticed": float(self.published("counts")[0])}


class Seeing(Counting):
    objects = (*PPO.objects, ObjectKey("counts", (2,), "int64"), ObjectKey("seen"))

    def update(self, batch, call):
        metrics = super().update(batch, call)
        self.publish("seen", metrics["seen"])
        return metrics


@dataclass
class ByCount(ScalingPolicy):
    least: int = 1
    most: int = 2
    objects = ("counts",)

    def decide(self, seen, memory):
        counts = seen.objects.get("counts")
        memory.setdefault("counts", []).append(-1 if counts is None else int(counts[0]))
        return 1


def on_value(total_steps: int = 96, above: float = 35.0):
    base = workload(total_steps)
    due = Once(ValueTrigger("seen", above=above))
    triggers = {**base.triggers, "learner.noticed": due}
    return replace(base, learner=Seeing(minibatches=2), triggers=triggers)


def workload(total_steps: int = 64, key: str = "counts", actors: int = 0, extra: str = ""):
    base = ppo("CartPole-v1", 1, total_steps, envs=1, steps=16, hidden=(8,), minibatches=2)
    learner = Counting(minibatches=2)
    triggers = {**base.triggers, "learner.noticed": ObjectKeyTrigger(key)}
    keys = (ObjectKey(extra),) if extra else ()
    scaling = actors or ByCount()
    return replace(base, learner=learner, triggers=triggers, actors=scaling, object_keys=keys)
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


def asked(own: Path, **settings: Any) -> Request:
    return Request("own.py:workload", settings, 3, own / "r", True, True, folder=own)


def firings(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    return [line for line in lines if line.get("trigger") == "learner.noticed"]


def manifest_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "checkpoint" / "manifest.json").read_text())
    return found


def test_it_fires_is_read_by_policies_saved_and_restored(own: Path) -> None:
    summary = run(asked(own))
    assert summary.status.steps == 64
    assert [line["version"] for line in firings(own / "r")] == [0, 1, 2, 3]
    manifest = manifest_of(own / "r")
    assert manifest["objects"] == {"counts": 3}
    assert manifest["scaling"]["memory"]["counts"] == [-1, 16, 32, 48, 64]
    resume(own / "r", {"total_steps": 96}, quiet=True, trust=True)
    versions = [line["version"] for line in firings(own / "r")]
    assert versions == [0, 1, 2, 3, 3, 4, 5], "the one it goes on from is announced again"
    manifest = manifest_of(own / "r")
    assert manifest["objects"] == {"counts": 5}
    assert manifest["scaling"]["memory"]["counts"][-1] == 96


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"key": "count"}, "learner.noticed.*unknown object key 'count': did you mean counts"),
        (
            {"extra": "weather"},
            "object_keys: unknown object key 'weather' .*does not publish it",
        ),
    ],
)
def test_what_nobody_publishes_is_refused(own: Path, settings: dict[str, str], words: str) -> None:
    with pytest.raises(Refused, match=words):
        run(asked(own, **settings))
    assert not (own / "r").exists()


def test_a_policy_that_reads_what_nobody_publishes_is_refused(own: Path) -> None:
    text = OWN.replace('(*PPO.objects, ObjectKey("counts", (2,), "int64"))', 'ObjectKey("counts")')
    (own / "own.py").write_text(text.replace('objects = ("counts",)', 'objects = ("noise_scale",)'))
    with pytest.raises(Refused, match="scaling or object_keys: unknown object key 'noise_scale'"):
        run(asked(own))


def test_a_value_fires_a_trigger_once(own: Path) -> None:
    """After 16, 32, 48 ... rows: with the third version, as 48 is the first beyond 35."""
    run(replace(asked(own), workload="own.py:on_value"))
    (firing,) = firings(own / "r")
    assert firing["version"] == 2
