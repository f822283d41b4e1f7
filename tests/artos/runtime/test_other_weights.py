"""Weights of another run, or the best ones of this: what is wrong with them, and what is bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from saved_runs import saved_run
from stage import Stage, plan_of

from artos.buffer.model_block import ObjectSpec
from artos.errors import CheckpointFault, NotBranched
from artos.runs.checkpoint import SavedLearner
from artos.runs.plan import Beside, Plan
from artos.runtime import other_weights
from artos.runtime.other_weights import faults, read, sent, to_send
from artos.runtime.serving import actor_role
from artos.specs.keys import ArraySpec, DataKey

PARAMETERS = {"policy_bias": (3.0, 4.0)}


@pytest.fixture
def plan() -> Plan:
    return plan_of("CartPole-v1")


def with_reads(plan: Plan, history: int = 0) -> Plan:
    """Its actors read an object of the learner, and what a rival learns; maybe past versions."""
    weights, *others = plan.objects
    read = ArraySpec("reads.heat", (2,))
    weights = msgspec.structs.replace(weights, arrays=(*weights.arrays, read), history=history)
    rival = ObjectSpec("model_param", (ArraySpec("params", (3,)),), 1, 4, history)
    return msgspec.structs.replace(
        plan, objects=(weights, *others), beside=(Beside("rival", 1, (rival,)),),
        data_keys=(*plan.data_keys, DataKey("policy_version.rival", (), "int64", per_env=False)),
    )  # fmt: skip


def as_lists(held: dict[str, Any]) -> bytes:
    return msgspec.json.encode(held, enc_hook=lambda array: (array.dtype.str, array.tolist()))


def told(run: Path, plan: Plan, *, best: bool = False, own: bool = False) -> str:
    return "\n".join(faults(run, plan, best=best, own=own))


@pytest.mark.parametrize("best", [False, True])
def test_weights_of_the_same_policy_fit(plan: Plan, tmp_path: Path, best: bool) -> None:
    assert not told(saved_run(tmp_path, plan, best=best), plan, best=best)


def test_all_that_is_wrong_is_told_at_once(plan: Plan, tmp_path: Path) -> None:
    other = plan_of("Acrobot-v1")
    found = told(saved_run(tmp_path, other, about={"workload": "dqn"}), plan)
    assert found.count(f"run {tmp_path}: ") == len(found.splitlines()) == 4
    assert "CartPole-v1 shows float32[4] as observations, Acrobot-v1 showed float32[6]" in found
    assert "CartPole-v1 takes actions ('discrete', (), (2,))" in found
    assert "its weights are those of dqn, and this run is ppo" in found
    assert "model.policy_bias is float32[3], here float32[2]" in found


def test_a_parameter_too_many_does_not_fit(plan: Plan, tmp_path: Path) -> None:
    more = {"model.gate": np.zeros(1, np.float32), "learner.moments": np.zeros(9, np.float32)}
    found = told(saved_run(tmp_path, plan, more), plan)
    assert "(model.gate is float32[1], here unknown)" in found


def test_what_is_not_there_is_told(plan: Plan, tmp_path: Path) -> None:
    assert "config.json cannot be read" in told(tmp_path, plan)
    assert "there is no checkpoint" in told(tmp_path, plan)
    saved_run(tmp_path, plan)
    assert "is given --set evaluate_every=N" in told(tmp_path, plan, best=True)
    with pytest.raises(CheckpointFault, match="evaluate_every"):
        read(tmp_path, plan, best=True)
    (tmp_path / "config.json").write_text('{"workload": "ppo", "settings": {}, "folder": ""}')
    assert "says nothing of an environment" in told(tmp_path, plan)


def test_what_actors_read_has_to_be_there(plan: Plan, tmp_path: Path) -> None:
    found = told(saved_run(tmp_path, plan), with_reads(plan))
    assert "reads.heat is missing, here float32[2]" in found
    assert "rival/params is missing, here float32[3]" in found


def test_what_a_policy_remembers_is_of_its_own_run(plan: Plan, tmp_path: Path) -> None:
    recurrent = msgspec.structs.replace(plan, state_keys=("memory",))
    assert "recurrent" in told(saved_run(tmp_path, plan), recurrent)
    assert not told(tmp_path, recurrent, own=True)


def test_the_best_version_has_no_past(plan: Plan, tmp_path: Path) -> None:
    weights, *others = plan.objects
    past = (msgspec.structs.replace(weights, history=2), *others)
    saved_run(tmp_path, plan, best=True)
    assert "leave --best out" in told(
        tmp_path, msgspec.structs.replace(plan, objects=past), best=True
    )


def test_an_actor_acts_with_all_of_it(plan: Plan, tmp_path: Path) -> None:
    run = saved_run(tmp_path / "other", plan, **PARAMETERS)
    with Stage("CartPole-v1", tmp_path) as stage:
        role, _ = actor_role(stage.plan, stage.site(0), stage.node.model)
        role._take(read(run, stage.plan, best=False))
        bound, names = role._actor.bound, [name for name, _ in plan.layout]
        role.close()
    assert bound.params is not None
    assert (bound.version, bound.params.dtype, bound.params.sum()) == (9, np.float32, 7.0)
    sizes = [int(np.prod(shape)) for _, shape in plan.layout]
    at = sum(sizes[: names.index("policy_bias")])
    assert bound.params[at : at + 2].tolist() == [3.0, 4.0]


@pytest.mark.parametrize("best", [False, True])
def test_what_is_read_with_weights_comes_with_them(plan: Plan, tmp_path: Path, best: bool) -> None:
    reading, heat = with_reads(plan, 0 if best else 2), np.array([1, 2], np.float32)
    rival = np.arange(3, dtype=np.float32)
    if best:
        more = {"reads.rival/model_param": rival, "policy_version.rival": np.array(4)}
        run = saved_run(tmp_path, plan, {"reads.heat": heat, **more}, best=True)
    else:
        past = {f"past.{n}.params": np.full(2, n, np.float32) for n in (2, 6, 4)}
        past |= {f"rival/past.{n}.params": np.full(3, n, np.float32) for n in (1, 3, 2)}
        more = {"reads.heat": heat, "rival/params": rival, **past}
        run = saved_run(tmp_path, plan, more, about={"learners": {"rival": SavedLearner(4)}})
    assert not told(run, reading, best=best)
    held = read(run, reading, best=best)
    (version, newest), *pasts = held["bound"]
    assert (version, newest["reads.heat"].tolist()) == (9, [1, 2])
    assert [past for past, _ in pasts] == ([] if best else [6, 4]), "the newest first, two of them"
    (of,) = held["others"].items()
    found = [(version, arrays["params"].tolist()) for version, arrays in of[1]]
    kept = [] if best else [(3, [3, 3, 3]), (2, [2, 2, 2])]
    assert (of[0], found) == ("rival", [(4, [0, 1, 2]), *kept])
    (file := tmp_path / "sent").write_bytes(to_send(run, reading, best=best))
    there = sent(file)
    assert as_lists(there) == as_lists(held), "it is the same elsewhere"
    there["bound"][0][1]["reads.heat"][0] = 3.0


def test_what_is_too_large_to_be_sent_is_refused(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_weights, "_MOST_SENT", 1 << 10)
    with pytest.raises(NotBranched, match=f"the weights of {tmp_path} take 0 MB, and at most"):
        to_send(saved_run(tmp_path, plan), plan, best=False)
