"""What is advised can be set: every algorithm is advised only settings that it has."""

from __future__ import annotations

import re
from typing import Any

import pytest
from test_diagnosis import FREE, IN_TURN, REPLAY, run_of

from artos.runs.loader import settings_of_workload
from artos.specs.elastic import NAMES
from artos.specs.reference import Reference
from deploy.why.diagnosis import findings
from deploy.why.evidence import Evidence
from deploy.why.history import History
from triggers.algorithms import BUILT_IN

PLANTED = {
    "threads": 16, "wire_dtype": "float32", "park": "checkpoint", "slots": 1, "checkpoint": "all",
    "batch": 8, "ratio": 8.0, "max_lag": 0, "n": 3,
}  # fmt: skip
OTHER = "appo or impala, with "
"""The settings that follow are theirs."""


def settings_of(algorithm: str) -> set[str]:
    found = settings_of_workload(Reference(BUILT_IN[algorithm], {}, ""))
    return {each.name for each in found} | NAMES


def held_up() -> list[History]:
    """Runs that are held up in each way."""
    return [
        run_of(sample=1.0), run_of(actors=4, slow=8.5), run_of(), run_of(learn=1.0),
        run_of(sample=0.001, learn=0.001, over=0.02), run_of(learn=0.001, over=0.0),
        run_of(blocked=0.5), run_of(over=0.4, far=True), run_of(device=0.5), run_of(waited=0.5),
        run_of(slot=0.5), run_of(slot=0.5, far=True, quota="a quota"),
    ]  # fmt: skip


@pytest.mark.parametrize("algorithm", BUILT_IN)
def test_an_algorithm_is_advised_what_it_has(algorithm: str) -> None:
    known = settings_of(algorithm)
    settings: dict[str, Any] = dict.fromkeys(known) | {
        name: value for name, value in PLANTED.items() if name in known
    }
    fields = REPLAY["fields"] | {"ratio": 8.0}
    tables = [REPLAY | {"fields": fields}] if "ratio" in known else [IN_TURN, FREE]
    said = []
    for history in held_up():
        for table in tables:
            actors = sum(name.startswith("actor") for name in history.members)
            for actors_cpu in (0.1, 0.9):
                run = Evidence(
                    history, settings, {"learner.update": table}, actors, steps=8, cpus=4,
                    actors_cpu=actors_cpu, algorithm=algorithm, moved=8e6,
                )  # fmt: skip
                said += [(each.bottleneck, text) for each in findings(run) for text in each.advice]
    assert len({bottleneck for bottleneck, _ in said}) >= 6, said
    for bottleneck, text in said:
        assert text.strip(), bottleneck
        has = settings_of("impala") if text.startswith(OTHER) else known
        named_in = {*re.findall(r"--set (\w+)=", text)} | {*re.findall(r"--(actors) ", text)}
        assert named_in <= has, f"{bottleneck}: {text}"
        assert " of its " not in text, "that is for tables of the user's own"


def test_a_table_of_the_users_own_has_other_places() -> None:
    """Its function may take no such setting."""
    run = run_of()
    evidence = Evidence(run, {}, {"learner.update": IN_TURN}, 2, cpus=2, algorithm="mine")
    assert "max_lag=1 of its DataKeyTrigger" in [a for f in findings(evidence) for a in f.advice]
    evidence = Evidence(run, {}, {"learner.update": IN_TURN}, 2, cpus=2, algorithm="a2c")
    assert "lag gate" not in [each.bottleneck for each in findings(evidence)]


def test_with_only_one_of_its_settings_another_algorithm_is_advised() -> None:
    settings = {"n": 4}
    run = Evidence(
        run_of(actors=4, slow=8.5), settings, {"learner.update": FREE}, 4, cpus=2, actors_cpu=0.9
    )
    (straggler,) = [each for each in findings(run) if each.bottleneck == "one straggler"]
    assert straggler.advice == (f"{OTHER}--set n=3 --set max_lag=10",)


@pytest.mark.parametrize(
    ("algorithm", "learners", "first"),
    [("mine", 1, "if the learner is your own"), ("mine", 2, "--set"), ("ppo", 1, "--set")],
)
def test_a_learner_of_the_users_own_has_to_be_divided_first(
    algorithm: str, learners: int, first: str
) -> None:
    """One that several processes make already can be."""
    run = Evidence(
        run_of(learn=1.0), {"learners": learners}, {"learner.update": IN_TURN}, 2, cpus=4,
        algorithm=algorithm,
    )  # fmt: skip
    (found,) = [each for each in findings(run) if each.bottleneck == "learner"]
    (advice,) = found.advice
    assert advice.startswith(first)
    assert advice.endswith("--set learners=4")
