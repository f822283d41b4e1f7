"""A benchmark that was stopped goes on case by case, and is then what it would have been."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from evaluation.core import progress, registry, sources
from evaluation.core.benchmark import Benchmark
from evaluation.core.machine import machine
from evaluation.core.progress import Asked, Progress, Stale
from evaluation.core.report import Results, read_json
from evaluation.core.runner import Answer, Contestant, Say, alternate


class Stopped(Exception):
    """As by Ctrl-C."""


def toy(log: list[str], stop_before: int) -> Any:
    """A benchmark with two cases and two repetitions, stopped before one of its measurements."""
    numbers = count(1)

    def measure(repeats: int, quick: bool, say: Say) -> Results:
        results = Results("toy", repeats)

        def one(name: str) -> Contestant:
            def measured() -> Answer:
                if next(numbers) == stop_before:
                    raise Stopped
                log.append(f"{name}{results.repetition}")
                results.followed(f"{name}{results.repetition}", {"seconds": [1.0]})
                results.kept.setdefault(name, []).append([float(results.repetition)])
                return Answer({"s": float(results.repetition)}, {"torch": "2"})

            return Contestant(name, {"s": (f"time: {name}", "s")}, measured)

        alternate(results, [one("a"), one("b")], repeats, say)
        results.compare("time: a", "time: b", 1.0)
        results.add("kept: all", "", sum(len(values) for values in results.kept.values()))
        return results

    return Benchmark(measure)


@pytest.mark.parametrize("stop_before", [1, 2, 3, 4])
def test_what_was_measured_is_not_measured_again(
    stop_before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, path = list[str](), tmp_path / "toy.json"
    monkeypatch.setitem(registry.BENCHMARKS, "toy", toy(log, stop_before))
    with pytest.raises(Stopped):
        registry.run("toy", path, repeats=2)
    assert len(log) == stop_before - 1
    assert not path.exists()
    assert registry.run("toy", path, repeats=2, resume=True) == 0
    assert log == ["a1", "b1", "a2", "b2"]
    report = read_json(path)
    assert [row.values for row in report.rows] == [(1.0, 2.0), (1.0, 2.0), (4.0,)]
    assert list(report.series) == log
    assert report.seconds
    assert registry.run("toy", path, repeats=2, resume=True) == 0
    assert len(log) == 4, "it was over"
    path.unlink()
    assert registry.run("toy", path, repeats=2, resume=True) == 0
    assert read_json(path).rows == report.rows, "from what was measured, without its report"
    assert registry.run("toy", path, repeats=2) == 0
    assert len(log) == 8, "nobody asked to go on"


def test_all_goes_on_with_the_benchmark_that_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = list[str]()
    first, second = toy(log, 0), toy(log, 3)
    monkeypatch.setattr(registry, "BENCHMARKS", {"first": first, "second": second})
    assert registry.run(registry.ALL, tmp_path / "x.json", repeats=2) != 0
    assert registry.run(registry.ALL, tmp_path / "x.json", repeats=2, resume=True) == 0
    assert log == ["a1", "b1", "a2", "b2"] * 2


def test_results_of_another_size_are_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "toy.json"
    monkeypatch.setitem(registry.BENCHMARKS, "toy", toy([], 2))
    with pytest.raises(Stopped):
        registry.run("toy", path, repeats=2)
    with pytest.raises(Stale, match="other repeats; measure it anew, without --resume"):
        registry.run("toy", path, repeats=3, resume=True)
    path.with_suffix(".part").write_text("{")
    with pytest.raises(Stale):
        registry.run("toy", path, repeats=2, resume=True)


@pytest.mark.parametrize("differs", ["machine", "code"])
def test_results_of_another_machine_or_code_are_not_gone_on_with(
    differs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "artos"
    package.mkdir()
    (package / "edited.py").write_text("one = 1\n")
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.setattr(sources, "CODE", ("artos",))
    asked = Asked.now((), 2, False)
    kept = Progress(tmp_path / "toy.part", asked)
    kept.end()
    assert Progress.of(kept.path, Asked.now((), 2, False)).state.over
    if differs == "code":
        (package / "edited.py").write_text("one = 2\n")
    else:
        monkeypatch.setattr(progress, "machine", lambda: {**machine(), "kernel": "another"})
    with pytest.raises(Stale, match=f"other {differs};"):
        Progress.of(kept.path, Asked.now((), 2, False))


def test_who_failed_stays_out(tmp_path: Path) -> None:
    asked = Asked.now((), 2, False)
    kept = Progress(tmp_path / "toy.part", asked)
    results = Results("toy", 2)
    results.absent("time: a", "s", "does not install")
    kept.state.failed.append("a")
    kept.measured(results, 1, "a")
    again, empty = Progress.of(tmp_path / "toy.part", asked), Results("toy", 2)
    again.restore(empty)
    assert again.state.failed == ["a"]
    assert msgspec.to_builtins(empty.report().rows) == msgspec.to_builtins(results.report().rows)
