"""Several copies of a measurement as one, and the ideal that two are compared with."""

from __future__ import annotations

import subprocess
import sys

import pytest

from evaluation.core.runner import Answer
from evaluation.sharing.ideal import cpu_seconds, ideal
from evaluation.sharing.several import at_once, in_turn, merged


def answer(update: float = 3.0, held: float = 5.0) -> Answer:
    return Answer({"update_s": update, "held_cpu_s": held}, {"torch": "2"})


def test_what_is_held_is_added_and_update_times_are_averaged() -> None:
    found = merged([answer(), answer(update=5.0, held=7.0)], 9.0)
    assert found.rates["held_cpu_s"] == 12.0
    assert found.rates["update_s"] == 4.0
    assert found.rates["makespan_s"] == 9.0
    assert found.versions == {"torch": "2"}


@pytest.mark.parametrize("how", [at_once, in_turn])
def test_each_copy_is_measured(how) -> None:
    measured: list[Answer] = []

    def single() -> Answer:
        measured.append(answer())
        return measured[-1]

    assert how(single, 3)().rates["held_cpu_s"] == 15.0
    assert len(measured) == 3


@pytest.mark.parametrize(
    ("update", "learn", "cpu", "both"),
    [(2.0, 1.0, 2.0, 2.0), (3.0, 1.0, 2.0, 4.0), (3.0, 2.0, 2.0, 4.0), (3.0, 2.0, 5.0, 5.0)],
    ids=["nothing is short", "slots", "the device", "cores"],
)
def test_two_that_interleave_wait_only_for_what_is_needed_longest(update, learn, cpu, both) -> None:
    assert ideal(update, learn, cpu, cores=2) == both


def test_cpu_seconds_are_also_those_of_descendants() -> None:
    work = "import time\nwhile time.process_time() < 0.3: pass"
    before = cpu_seconds()
    subprocess.run(["/bin/sh", "-c", f"{sys.executable} -c '{work}'; true"], check=True)
    assert cpu_seconds() - before >= 0.3
