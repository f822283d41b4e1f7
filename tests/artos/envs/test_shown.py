"""What an environment returns is what its space says, or it is refused by name at registration."""

from __future__ import annotations

import numpy as np
import pytest
from misdeclared_envs import ALLOWED, FOUR, REFUSED, Wrong

from artos.envs.make import describe, make_vector
from artos.envs.serial import SerialVectorEnv
from artos.envs.stepper import Stepper
from artos.errors import BadRow, Refused


def factory(case: str) -> str:
    return "misdeclared_envs:" + case.replace(" ", "_").replace("'", "")


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_by_name_before_anything_starts(case: str) -> None:
    with pytest.raises(Refused, match=REFUSED[case][1]) as refused:
        describe(factory(case))
    (fault,) = refused.value.faults
    assert fault.startswith(f"environment {factory(case)}: ")


@pytest.mark.parametrize("case", ALLOWED)
def test_what_loses_nothing_is_cast(case: str) -> None:
    spec = describe(factory(case))
    stepper = Stepper(make_vector(factory(case), 1), spec.name)
    stepper.reset(0)
    step = stepper.step(np.zeros(1, np.int64))
    seen = [x for part in step.obs.values() for x in part.ravel().tolist()]
    assert seen == ALLOWED[case][1]
    assert step.rewards.tolist() == [1.0]
    assert {p.name: p.dtype for p in spec.parts} == {n: a.dtype.name for n, a in step.obs.items()}


def test_one_that_changes_later_is_refused_with_actor_and_step() -> None:
    env = Wrong(FOUR, np.zeros(4, np.float32))
    stepper = Stepper(SerialVectorEnv([lambda: env]), "changing")
    stepper.actor, stepper.step_number = 3, 41
    stepper.reset(0)
    env.seen = np.zeros((2, 2), np.float32)
    with pytest.raises(BadRow, match=r"changing: .*\(2, 2\), its space says float32") as caught:
        stepper.step(np.zeros(1, np.int64))
    assert (caught.value.key, caught.value.actor, caught.value.step) == ("observations", 3, 41)
