"""Learners compiled by torch, next to the same as they are written, and a run that learns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from compilers import needs_compiler
from learned import learned as reached
from placed_learners import COMPILED, Parking, learned
from real_runs import Artos

from artos.learners.compiler import WAITS_FOR
from artos.protocol.invocations import Waits
from artos.specs.members import Member

pytestmark = [
    pytest.mark.long,
    needs_compiler,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),  # its own code's
]

_compile = torch.compile
SAME = {"rtol": 1e-5, "atol": 1e-6}
"""Compiled code adds up in another order: the last bits differ, and grow from step to step."""
TO_THE_END = ("ppo", "sac")
"""Compiled by the C++ compiler (half a minute each), one that learns from rounds and one that draws
rows; others are traced, with their gradients, and what was traced is run as it is."""
TWO_FUNCTIONS = ("sac", "sac-discrete", "td3", "ddpg", "d4pg", "crossq")
"""A loss of the critics and one of the policy."""


class Compiling(Parking):
    """Notes what its learner waits for; its weights move after each invocation."""

    told: list[str]

    def _report(self, member: Member, waits: Waits) -> None:
        Compiling.told.append(waits.what)
        super()._report(member, waits)


@pytest.mark.parametrize("name", COMPILED)
def test_it_learns_the_same_and_is_compiled_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._dynamo.utils import counters  # noqa: PLC0415  # takes a second

    if name not in TO_THE_END:
        monkeypatch.setattr(torch, "compile", _traced)
    plain = learned(name, tmp_path, "cpu")
    torch.compiler.reset()
    counters.clear()
    Compiling.told = []
    compiled = learned(name, tmp_path, "cpu", Compiling, compile="on")
    assert not counters["graph_break"]
    functions = 3 if name == "rnd" else 2 if name in TWO_FUNCTIONS else 1
    assert counters["stats"]["unique_graphs"] == functions
    # For its gradients a function may be compiled at once with its values, or later.
    assert len(Compiling.told) in (2 * functions, 4 * functions)
    assert Compiling.told == [WAITS_FOR, ""] * (len(Compiling.told) // 2)
    assert compiled.coordinator.monitor.restarts == 0
    assert plain.arrays.keys() == compiled.arrays.keys()
    for key, value in plain.arrays.items():
        np.testing.assert_allclose(compiled.arrays[key], value, err_msg=key, **SAME)


def _traced(function: Callable[..., Any], *, options: object, **how: Any) -> Callable[..., Any]:
    """In place of ``torch.compile``: all of it but for the code of its last step."""
    return _compile(function, backend="aot_eager", **how)


@pytest.mark.processes
def test_it_learns(start: Callable[..., Artos], home: Path) -> None:
    """A random policy gets 22."""
    size = ("--actors", "2", "--total-steps", "60000", "--seed", "1", "--run-dir", "learnt")
    run = start("run", "ppo", "--json", *size, "--set", "compile=on")
    assert reached(run, home / "learnt", 100, 100)
    assert json.loads((home / "learnt" / "summary.json").read_text())["restarts"] == 0
