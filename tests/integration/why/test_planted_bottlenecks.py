"""Each bottleneck is planted in a real run, and `artos why` names it."""

from __future__ import annotations

import math

import pytest

from evaluation.why.cases import CASES, Case, settings_of
from evaluation.why.runs import outcome

CLOCKED = ("slow environment", "one straggler", "lag gate", "slow disk", "learner")
"""Those whose waits are by the clock, on one machine; `artos bench why` plants the others, too."""

pytestmark = [pytest.mark.processes, pytest.mark.long]


@pytest.mark.parametrize(
    "case", [each for each in CASES if each.bottleneck in CLOCKED], ids=lambda case: case.bottleneck
)
def test_it_is_named(case: Case) -> None:
    said = outcome(case, {}).said
    if said.bottleneck == "busy machine":
        pytest.skip(f"others have the CPUs of this machine: {said.figure}")
    assert said.bottleneck == case.bottleneck, said
    assert said.gain > 1
    assert settings_of(said.advice[0])
    for member, kinds in said.shares.items():
        assert math.isclose(sum(kinds.values()), 1.0, abs_tol=0.01), member
