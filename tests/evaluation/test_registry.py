"""Benchmarks by name; a quick one runs the real thing from end to end."""

import json
import os
import re

import pytest
from helpers import ROOT

from artos.errors import Refused
from deploy.cli import bench
from deploy.cli.__main__ import main
from deploy.cli.parser import Parser
from evaluation.buffer import bench as buffer
from evaluation.core import registry
from evaluation.core.benchmark import Benchmark
from evaluation.core.progress import Stale
from evaluation.core.report import OURS, Results, read_json
from evaluation.throughput import bench as throughput


def test_an_unknown_benchmark_is_refused_with_the_closest_name():
    with pytest.raises(Refused, match="did you mean triggers"):
        registry.run("trigers")


@pytest.mark.processes
def test_no_repetition_is_refused():
    with pytest.raises(Refused, match="--repeats must be at least 1, not 0"):
        registry.run("triggers", repeats=0)


def test_every_benchmark_is_found_and_listed(capsys):
    declared = {path.parent.name for path in (ROOT / "evaluation").glob("*/bench.py")}
    redone = {f"paper-{n}" for n in ("table-2", "table-4", "table-6")}
    redone |= {f"paper-{n}" for n in ("figure-2", "figure-3", "figure-5")}
    assert set(registry.BENCHMARKS) == declared | redone
    seeds = {"catalogue", "defaults", "exactness", "learning", "references", "tokens"}
    assert (set(registry.of("seeds")), set(registry.of("paper"))) == (seeds, redone)
    assert set(registry.of("all")) == declared - seeds
    assert {"throughput", "paper-figure-5"} < set(registry.of("readme")) < declared | redone
    assert registry.main([]) == 0
    listed = capsys.readouterr().out.split()
    assert listed == [*registry.BENCHMARKS, *registry.SEVERAL]


def test_without_a_name_only_a_list_is_asked_for(capsys):
    assert registry.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["benchmarks"][: len(registry.BENCHMARKS)] == [
        *registry.BENCHMARKS
    ]
    for words in (["--json", "out.json"], ["--quick"], ["--repeats", "2", "--json"]):
        assert registry.main(words) == 2
        said = capsys.readouterr()
        assert "say first what to measure: artos bench NAME --" in said.err
        assert said.out == ""


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["toy"],
        ["toy", "--json"],
        ["toy", "--json", "a.json", "--repeats", "2", "--quick", "--resume", "--task", "a b"],
    ],
)
def test_the_command_becomes_the_suite(words, monkeypatch):
    def execv(program, command):
        assert command[:4] == [program, "-P", "-m", "evaluation.core.registry"]
        started.append(command[4:])

    started = []
    monkeypatch.setattr(os, "execv", execv)
    main(["bench", *words])
    (given,) = started
    parser = Parser()
    bench.add_arguments(parser)
    assert parser.parse_args(given) == parser.parse_args(words)


def test_a_quick_benchmark_writes_table_file_and_figure(tmp_path, capsys):
    path = tmp_path / "out.json"
    assert registry.run("triggers", path, quick=True) == 0
    report = json.loads(path.read_text())
    assert report["name"] == "triggers"
    assert {row["n"] for row in report["rows"]} == {1}
    assert all(row["median"] > 0 for row in report["rows"])
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "bare wake-up" in capsys.readouterr().out


def test_a_missed_goal_is_an_error_unless_the_run_was_quick(tmp_path, monkeypatch, capsys):
    def measure(repeats, quick, say):
        results = Results("toy", repeats)
        results.add("speed: ARTOS", "s", 1.0)
        results.add("speed: baseline", "s", 1.0)
        results.compare("speed: ARTOS", "speed: baseline", 2.0)
        return results

    monkeypatch.setitem(registry.BENCHMARKS, "toy", Benchmark(measure))
    monkeypatch.chdir(tmp_path)
    assert registry.run("toy") == 1
    assert registry.run("toy", quick=True) == 0
    files = [registry.file_of("toy", quick=quick) for quick in (False, True)]
    assert [read_json(file).quick for file in files] == [False, True], "each has its file"


def toy_of_tasks() -> Benchmark:
    def measuring(name):
        def measure(repeats, quick, say):
            results = Results(name, repeats)
            results.add(f"speed: {name}", "s", 1.0)
            return results

        return measure

    names = ("TRPO, CartPole", "ES, CartPole", "Cart")
    parts = {name: Benchmark(measuring(name)) for name in names}
    return Benchmark(measuring("toy"), parts=parts)


@pytest.mark.parametrize(
    ("text", "name", "file"),
    [("rpo, cart", "TRPO, CartPole", "toy-rpo-cart"), ("cart", "Cart", "toy-cart")],
)
def test_one_task_is_chosen_by_a_part_of_its_name(text, name, file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry.BENCHMARKS, "toy", toy_of_tasks())
    assert registry.main(["toy", "--task", text, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == name
    assert (tmp_path / "bench-results" / f"{file}.json").exists()


@pytest.mark.parametrize(
    ("name", "task", "why"),
    [
        ("toy", ", c", "2 of its tasks have that in the name: .*TRPO, CartPole; ES"),
        ("toy", "ppo", "none of its tasks has that in the name: .*TRPO, CartPole; ES"),
        ("triggers", "ppo", "triggers measures no single tasks: leave it out"),
        ("all", "ppo", "all measures no single tasks: leave it out"),
        ("trigers", "ppo", "did you mean triggers"),
    ],
)
def test_a_task_that_is_none_or_several_is_refused(name, task, why, monkeypatch):
    monkeypatch.setitem(registry.BENCHMARKS, "toy", toy_of_tasks())
    with pytest.raises(Refused, match=why):
        registry.run(name, task=task)


def test_a_case_that_misses_its_own_goal_is_an_error_and_series_have_a_figure(
    tmp_path, monkeypatch, capsys
):
    def measure(repeats, quick, say):
        results = Results("toy", repeats)
        results.add("unpark: ARTOS", "ms", 2.0)
        results.require("unpark: ARTOS", 1.0)
        results.followed("ARTOS", {"actors": [2, 4]})
        return results

    monkeypatch.setitem(registry.BENCHMARKS, "toy", Benchmark(measure))
    assert registry.run("toy", tmp_path / "a.json") == 1
    figures = sorted(path.name for path in tmp_path.glob("*.png"))
    assert figures == ["a-series.png", "a.png"]
    said = capsys.readouterr().out
    assert all(name in said for name in figures)


def test_every_goal_of_the_buffer_is_about_a_case_that_is_measured():
    cases = {case for case, _ in buffer.OUR_CASES.values()}
    for name in buffer.BASELINES:
        groups = (buffer.WRITE, buffer.UNIFORM, buffer.PRIORITISED)
        cases |= {f"{group}: {name}" for group in groups}
    for measure, against, _ in buffer.GOALS:
        assert buffer.OUR_CASES[measure][0] in cases
        assert against in cases


def test_throughput_compares_like_with_like_and_each_rival_at_its_best():
    names = (
        OURS,
        f"{OURS}, overlapped",
        "one file, 1 thread",
        "one file, 2 threads",
        throughput.SB3,
    )
    cases = [f"{throughput.CARTPOLE}: {name}" for name in names]
    cases += [f"{throughput.CARTPOLE_BEST}: {name}" for name in (f"{OURS}, wide", "RLlib, PPO")]
    cases += [f"{throughput.PONG}: {name}" for name in (OURS, throughput.SB3)]
    cases += [f"{throughput.PONG_BFLOAT16}: {name}" for name in (OURS, "one file, fast")]
    found = {(goal.mine, goal.theirs): goal.goal for goal in throughput.goals(cases)}
    ours, overlapped, one, two, sb3, wide, rllib, pong, pong_sb3, bfloat16, one_bfloat16 = cases
    assert found == {
        ((ours,), (one, two)): 2.2,
        ((ours,), (sb3,)): 3.0,
        ((overlapped,), (ours,)): None,
        ((wide,), (rllib,)): None,
        ((pong,), (pong_sb3,)): 2.0,
        ((bfloat16,), (one_bfloat16,)): 2.0,
    }


def test_as_many_seeds_are_measured_as_a_proof_needs(monkeypatch, tmp_path):
    seeds = []

    def measure(repeats, quick, say):
        seeds.append(repeats)
        return Results("toy", repeats)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        registry, "BENCHMARKS", {"toy": Benchmark(measure, draw=lambda *_: [], least=5)}
    )
    for name, repeats, quick in (
        ("toy", 3, False),
        ("toy", 7, False),
        ("seeds", 3, False),
        ("toy", 3, True),
    ):
        registry.run(name, quick=quick, repeats=repeats)
    assert seeds == [5, 7, 5, 1]


def test_one_that_cannot_be_measured_keeps_nobody_from_it(monkeypatch, tmp_path, capsys):
    done = []

    def run(name, *_):
        if name == "buffer":
            raise Stale(tmp_path / "buffer.part", "of another commit")
        done.append(name)
        return 0

    several = ["buffer", "triggers", "replay"]
    monkeypatch.setattr(registry, "of", lambda name: several if name == "all" else [])
    whole = registry.run
    monkeypatch.setattr(registry, "run", run)
    assert whole("all", None) != 0
    assert done == ["triggers", "replay"]
    assert "buffer could not be measured: Stale: " in capsys.readouterr().out


@pytest.mark.parametrize("name", registry.BENCHMARKS)
def test_marks_of_older_code_count_what_is_written_here_of_rivals(name: str) -> None:
    """All of the baselines that are named in what a benchmark counts of ``evaluation/``."""
    measures = {*registry.BENCHMARKS[name].measures}
    counted = [ROOT / each for each in measures if each.startswith("evaluation/")]
    files = [file for each in counted for file in (each.rglob("*.py") if each.is_dir() else [each])]
    words = {
        word
        for file in files
        for line in file.read_text().splitlines()
        if "baselines" in line
        for word in re.findall(r"\w+", line)
    }
    there = {file.stem for file in (ROOT / "evaluation" / "baselines").glob("[!_]*.py")}
    assert {f"evaluation/baselines/{each}.py" for each in words & there} <= measures
