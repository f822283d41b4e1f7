"""``artos bench defaults``: what final policies return, and how many seeds kept it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from artos.errors import ArtosError
from evaluation.core.report import missed
from evaluation.core.runner import Answer
from evaluation.defaults import artos_side, bench


def measured(returns: Sequence[float | None], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A report of seeds with these returns; None: the run failed."""

    def answered(module: str, *words: str, seconds: float) -> Any:
        found = returns[int(words[words.index("--seed") + 1]) - 1]

        def call() -> Answer:
            if found is None:
                raise ArtosError("it fell over")
            return Answer({"final": found, "best": 500.0}, {})

        return call

    monkeypatch.setattr(bench, "ours", answered)
    return bench.measure(bench.SEEDS, False, lambda _: None).report()


@pytest.mark.parametrize(
    ("returns", "verdicts"),
    [
        ([500.0] * 9 + [10.0], [True, True]),
        ([500.0] * 8 + [299.0, 10.0], [True, False]),
        ([399.0] * 10, [False, True]),
    ],
)
def test_both_the_median_and_the_worst_seeds_count(
    returns: list[float], verdicts: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = measured(returns, monkeypatch)
    assert [row.holds for row in found.rows if row.goal is not None] == verdicts
    assert [row.goal for row in found.rows if row.contestant == bench.BEST] == [None]


def test_too_few_seeds_are_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured([500.0] * 9 + [None], monkeypatch)
    assert missed(found) == 2
    (kept,) = (row for row in found.rows if row.case.startswith(bench.KEPT))
    assert kept.note == "9 of 10 seeds were measured"


@pytest.mark.parametrize("evaluated", [False, True])
def test_a_run_is_played_greedily_as_it_ended_and_at_its_best(
    evaluated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[str]] = []

    @contextmanager
    def trained(words: Sequence[str]) -> Iterator[Path]:
        asked.append(words)
        if evaluated:
            (tmp_path / "best").mkdir()
        yield tmp_path

    def artos(words: Sequence[str]) -> int:
        asked.append(words)
        print(json.dumps({"mean_return": 500.0 if "--best" in words else 90.0}))
        return 0

    monkeypatch.setattr(artos_side, "trained", trained)
    monkeypatch.setattr(artos_side, "artos", artos)
    best = {"best": 500.0} if evaluated else {}
    assert artos_side.run(["run", "dqn"]) == {"final": 90.0} | best
    assert asked[0] == ["run", "dqn"]
    assert all({"eval", "--greedy", "--json"} <= {*words} for words in asked[1:])
