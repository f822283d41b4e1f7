"""Which runs are one curve, and what is drawn and said of them."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from artos.errors import Refused
from artos.protocol.usage import Usage
from artos.protocol.views import Status
from deploy.cli.__main__ import main
from deploy.figures.questions import Answer, answers, curve_of, draw_curves
from deploy.figures.read_run import Group, ReadRun, by_run, by_seed, readable
from deploy.figures.report import report
from deploy.figures.timeline import timeline
from head.records.evaluations import Evaluated
from head.records.progress_log import ProgressLog
from head.records.run_folder import RunFolder
from head.records.status import Summary

HOSTILE = '<script>alert(1)</script>$\\frac{x$ & "\x1b[31m'
STATUS = Status(
    "ppo", "CartPole-v1", seconds=9.0, steps=900, updates=9, lags={"0": 30, "1": 10},
    lag_mean=0.25, lag_max=1, shares={"learner.learn": 0.75, "learner.wait": 0.25},
)  # fmt: skip


def made(
    root: Path, name: str, seed: int = 1, lr: float = 1e-3, *, scale: float = 1.0, **config: Any
) -> ReadRun:
    asked = {
        "workload": "ppo", "folder": "", "seed": seed, "settings": {"lr": lr},
        "algorithm": "ppo", "env": "CartPole-v1", "versions": {"artos": "0.2.0"}, **config,
    }  # fmt: skip
    with RunFolder.create(root / name, asked) as folder:
        with ProgressLog(folder) as log:
            log.episodes([(step, scale * step, 1) for step in range(10, 910, 10)])
            log.write(msgspec.structs.replace(STATUS, seconds=4.5, steps=450))
            log.write(STATUS)
            log.evaluated([Evaluated(v, 100 * v, v, scale * v, 1.0, 5, 7.0, 0.5) for v in (1, 9)])
        folder.write_summary(Summary(STATUS, Usage(cpu_seconds_held=12.5), seed=seed, why=""))
        folder.journal.write_text(
            '{"t":0.5,"ready":"actor 0","start":"fork","seconds":0.2}\n'
            '{"t":0.8,"done":1,"by":"actor 0","version":0,"seconds":0.2,"waited":0.05}\n'
        )
    return ReadRun(root / name)


def nothing(why: str) -> None:
    pytest.fail(f"left out: {why}")


def by_name(runs: list[ReadRun]) -> dict[str, Answer]:
    return {answer.name: answer for answer in answers(by_seed(runs), nothing)}


def test_runs_that_differ_in_their_seed_alone_are_one_curve(tmp_path: Path) -> None:
    runs = [made(tmp_path, f"{lr}-{seed}", seed, lr) for lr in (1e-3, 3e-4) for seed in (2, 1)]
    groups = by_seed(runs)
    assert [group.label for group in groups] == [
        "ppo on CartPole-v1 lr=0.001", "ppo on CartPole-v1 lr=0.0003"
    ]  # fmt: skip
    assert [[run.asked.seed for run in group.runs] for group in groups] == [[1, 2], [1, 2]]
    assert [group.label for group in by_run(runs)] == [run.name for run in runs]


def test_runs_of_one_name_in_two_folders_have_bars_of_their_own(tmp_path: Path) -> None:
    runs = [made(tmp_path / place, "ppo-1") for place in "ab"]
    found = {answer.name: answer for answer in answers(by_run(runs), nothing)}
    for answer in found.values():
        answer.draw(axes := Figure().add_subplot())
        assert axes.get_legend_handles_labels()[1] == ["a/ppo-1", "b/ppo-1"]


def test_returns_of_each_environment_have_axes_of_their_own(tmp_path: Path) -> None:
    made(tmp_path, "a")
    made(tmp_path, "b", env="Pendulum-v1")
    made(tmp_path, "c", env="../x y")
    made(tmp_path, "d", env="../x/y")
    found = by_name([ReadRun(tmp_path / name) for name in "abcd"])
    places = ("CartPole-v1-1", "Pendulum-v1-2", "x-y-3", "x-y-4")
    names = [f"return-by-steps-{place}" for place in places]
    assert [name for name in found if name.startswith("return-by-steps")] == names
    both = by_name([ReadRun(tmp_path / name) for name in "ab"])
    assert "return-by-steps-Pendulum-v1" in both
    assert [name for name in found if name[0] in "lt"] == ["lag", "time"]
    assert found[names[1]].caption.endswith("steps. ppo on Pendulum-v1, seed 1, 900 steps (run b).")
    found[names[1]].draw(axes := Figure().add_subplot())
    assert axes.get_legend_handles_labels()[1] == ["ppo on Pendulum-v1"]


def test_a_group_looks_the_same_in_each_figure(tmp_path: Path) -> None:
    first = made(tmp_path, "a", lr=0.1)
    runs = [first, made(tmp_path, "b", lr=0.2)]
    (first.folder / "evaluations.csv").unlink()
    colours = set()
    for name in ("return-by-steps", "evaluation"):
        by_name(runs)[name].draw(axes := Figure().add_subplot())
        handles, texts = axes.get_legend_handles_labels()
        colours.add(dict(zip(texts, handles, strict=True))["ppo on CartPole-v1 lr=0.2"].get_color())
    assert len(colours) == 1


def test_evaluations_of_runs_without_steps_lie_at_their_updates(tmp_path: Path) -> None:
    config = {"workload": "bc", "folder": "", "settings": {}}
    with RunFolder.create(tmp_path / "r", config) as run, ProgressLog(run) as log:
        log.evaluated([Evaluated(v, 0, 10 * v, v, 1.0, 5, 7.0, 0.5) for v in (1, 2, 3)])
    (found,) = answers(by_run([ReadRun(run.path)]), nothing)
    found.draw(axes := Figure().add_subplot())
    assert axes.get_xlabel() == "updates"
    assert list(axes.get_lines()[0].get_xdata()) == [10.0, 20.0, 30.0]


def test_only_runs_of_one_algorithm_and_environment_are_compared(tmp_path: Path) -> None:
    runs = [
        made(tmp_path, f"ppo-{lag}-{seed}", seed, settings={"max_lag": lag, "clip": 0.2})
        for lag in (0, 2)
        for seed in (1, 2)
    ]
    runs.append(made(tmp_path, "dqn", algorithm="dqn", settings={"tau": 0.005, "clip": 9.0}))
    runs.append(made(tmp_path, "pend", env="Pendulum-v1", settings={"clip": 0.1}))
    runs.append(made(tmp_path, "bc", algorithm="bc", env="", workload="bc"))
    runs.append(made(tmp_path, "mine", algorithm="", env="", workload="mine.py:own"))
    assert [group.label for group in by_seed(runs)] == [
        "ppo on CartPole-v1 max_lag=0", "ppo on CartPole-v1 max_lag=2", "dqn on CartPole-v1",
        "ppo on Pendulum-v1", "bc", "mine.py:own",
    ]  # fmt: skip


def test_runs_of_other_workloads_are_other_curves(tmp_path: Path) -> None:
    runs = [
        made(tmp_path, f"{workload}-{seed}", seed, workload=workload)
        for workload in ("mine.py:plain", "mine.py:clipped")
        for seed in (1, 2)
    ]
    assert [(group.label, len(group.runs)) for group in by_seed(runs)] == [
        ("ppo on CartPole-v1 workload=mine.py:plain", 2),
        ("ppo on CartPole-v1 workload=mine.py:clipped", 2),
    ]
    runs = [runs[0], made(tmp_path, "dqn", workload="dqn", algorithm="dqn")]
    assert [group.label for group in by_seed(runs)] == ["ppo on CartPole-v1", "dqn on CartPole-v1"]


def test_a_workload_of_one_name_in_another_folder_is_another(tmp_path: Path) -> None:
    runs = [
        made(tmp_path, f"{folder}-{seed}", seed, workload="mine.py:plain", folder=f"/lab/{folder}")
        for folder in ("old", "new")
        for seed in (1, 2)
    ]
    assert [(group.label, len(group.runs)) for group in by_seed(runs)] == [
        ("ppo on CartPole-v1 workload=old/mine.py:plain", 2),
        ("ppo on CartPole-v1 workload=new/mine.py:plain", 2),
    ]
    assert by_seed(runs[:2])[0].label == "ppo on CartPole-v1"


def test_a_seed_that_occurs_twice_is_not_told_as_two(tmp_path: Path) -> None:
    runs = [made(tmp_path, name, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    (group,) = by_seed(runs)
    assert group.who == "ppo on CartPole-v1, 3 runs, some of one seed (1, 1, 2), 900 steps each"


def test_captions_say_what_was_run_and_how_long(tmp_path: Path) -> None:
    runs = [made(tmp_path, f"run-{lr}", lr=lr) for lr in (0.1, 0.2)]
    progress = runs[1].folder / "progress.csv"
    progress.write_text(progress.read_text().replace(",900,", ",1200,"))
    assert [group.who for group in by_run(runs)] == [
        "run-0.1: ppo on CartPole-v1 lr=0.1, seed 1, 900 steps",
        "run-0.2: ppo on CartPole-v1 lr=0.2, seed 1, 1,200 steps",
    ]
    assert by_seed(runs)[0].who == "ppo on CartPole-v1 lr=0.1, seed 1, 900 steps (run run-0.1)"
    cut = replace(by_run(runs)[0], label="cut")
    assert cut.who == "cut: ppo on CartPole-v1 lr=0.1, seed 1, 900 steps (run run-0.1)"
    both = Group("both", tuple(runs), "both")
    assert both.who == "both, 2 runs, some of one seed (1, 1), 900 to 1,200 steps each"


def test_curves_are_compared_where_all_runs_have_them(tmp_path: Path) -> None:
    for name, steps in (("a", range(10, 110, 10)), ("b", range(5, 60, 5))):
        (tmp_path / name).mkdir()
        rows = "".join(f"{step},{step},1\n" for step in steps)
        (tmp_path / name / "episodes.csv").write_text(f"step,return,length\n{rows}")
    curve = curve_of("both", [ReadRun(tmp_path / name) for name in "ab"])
    assert curve is not None
    assert (curve.at[0], curve.at[-1]) == (10.0, 55.0)
    assert curve.values.shape == (2, len(curve.at))
    assert np.all(np.diff(curve.values, axis=1) > 0)
    assert curve_of("none", [ReadRun(tmp_path / "c")]) is None
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "episodes.csv").write_text("step,return,length\n900,1,1\n")
    assert curve_of("apart", [ReadRun(tmp_path / name) for name in ("a", "late")]) is None


def test_a_curve_is_what_it_is_after_all_episodes_of_a_step(tmp_path: Path) -> None:
    rows = "".join(f"{step},{value},1\n" for step in (100, 200) for value in (step, 3 * step))
    (tmp_path / "episodes.csv").write_text(f"step,return,length\n{rows}")
    curve = curve_of("a", [ReadRun(tmp_path)])
    assert curve is not None
    assert curve.values[0].tolist() == pytest.approx(np.linspace(200, 300, 200).tolist())


def test_episodes_that_all_end_at_one_step_are_a_mark(tmp_path: Path) -> None:
    runs = list[ReadRun]()
    for name, returns in (("a", (1, 3)), ("b", (6,))):
        (tmp_path / name).mkdir()
        rows = "".join(f"200,{value},200\n" for value in returns)
        (tmp_path / name / "episodes.csv").write_text(f"step,return,length\n{rows}")
        runs.append(ReadRun(tmp_path / name))
    curve = curve_of("both", runs)
    assert curve is not None
    draw_curves(axes := Figure().add_subplot(), [curve], "steps", "return")
    (line,) = axes.get_lines()
    assert (*line.get_xdata(), *line.get_ydata(), line.get_marker()) == (200.0, 4.0, "o")
    (spread,) = axes.collections
    assert spread.get_paths()[0].vertices.tolist() == [[200.0, 2.0], [200.0, 6.0]]


def test_seconds_are_those_of_the_progress(tmp_path: Path) -> None:
    run = made(tmp_path, "a")
    assert run.seconds_at(np.array([0.0, 450.0, 675.0, 900.0])).tolist() == pytest.approx(
        [0.0, 4.5, 6.75, 9.0]
    )


def test_the_last_step_of_a_run_that_goes_on_without_any_was_made_when_it_was(
    tmp_path: Path,
) -> None:
    run = made(tmp_path, "a")
    progress = run.folder / "progress.csv"
    names, *_, last = progress.read_text().splitlines()
    later = dict(zip(names.split(","), last.split(","), strict=True)) | {"seconds": "99.0"}
    with progress.open("a") as file:
        file.write(",".join(later.values()) + "\n")
    again = ReadRun(run.folder)
    assert again.history[-1].seconds == 99.0
    assert again.seconds_at(np.array([900.0])).tolist() == pytest.approx([9.0])


def test_without_progress_there_is_no_axis_of_seconds(tmp_path: Path) -> None:
    run = made(tmp_path, "a")
    (run.folder / "progress.csv").unlink()
    found = by_name([run])
    assert "return-by-steps" in found
    assert "return-by-seconds" not in found


def test_each_figure_answers_one_question_and_says_whose_spread_it_shows(tmp_path: Path) -> None:
    found = by_name([made(tmp_path, f"run-{seed}", seed, scale=seed) for seed in (1, 2)])
    assert [*found] == ["return-by-steps", "return-by-seconds", "evaluation", "lag", "time"]
    for answer in found.values():
        assert answer.question.endswith("?")
        assert "2 seeds (1, 2)" in answer.caption
        assert "from the lowest to the highest run" in answer.caption
    alone = answers(by_run([ReadRun(tmp_path / "run-1")]), nothing)
    assert "lowest" not in alone[0].caption


def test_captions_name_the_runs_that_are_drawn_and_count_the_others(tmp_path: Path) -> None:
    runs = [made(tmp_path, f"run-{seed}", seed) for seed in (1, 2)]
    for seed in (3, 4):
        asked = {"workload": "ppo", "folder": "", "seed": seed, "settings": {"lr": 1e-3}}
        asked |= {"algorithm": "ppo", "env": "CartPole-v1"}
        RunFolder.create(tmp_path / f"new-{seed}", asked).close()
        runs.append(ReadRun(tmp_path / f"new-{seed}"))
    found = by_name(runs)
    for name, what in {
        "return-by-steps": "episodes to compare", "return-by-seconds": "episodes to compare",
        "evaluation": "evaluations to compare", "lag": "any such row", "time": "times",
    }.items():  # fmt: skip
        whose = f"CartPole-v1, 2 seeds (1, 2), 900 steps each. 2 without {what} are left out."
        assert found[name].caption.endswith(whose)
    (alone,) = (each for each in answers(by_run(runs), nothing) if each.name == "time")
    assert alone.caption.endswith(
        "run-1: ppo on CartPole-v1, seed 1, 900 steps; "
        "run-2: ppo on CartPole-v1, seed 2, 900 steps. 2 without times are left out."
    )


def test_both_kinds_of_file_show_something_and_are_the_same_each_time(tmp_path: Path) -> None:
    answer = by_name([made(tmp_path, "a"), made(tmp_path, "b", 2, scale=2.0)])["return-by-steps"]
    files = answer.files("svg", "png")
    assert files["svg"] == answer.files("svg")["svg"]
    picture = imread(io.BytesIO(files["png"]))
    assert picture.shape[1] == 900
    assert len(np.unique(picture.reshape(-1, picture.shape[2]), axis=0)) > 10
    assert b"<svg" in files["svg"]


def test_what_has_not_begun_has_no_figures(tmp_path: Path) -> None:
    asked = {"workload": "ppo", "settings": {}, "folder": ""}
    RunFolder.create(tmp_path / "new", asked).close()
    assert answers(by_seed([ReadRun(tmp_path / "new")]), nothing) == []
    assert "nothing to draw" in report(tmp_path / "new", nothing)


def test_hostile_text_is_drawn_as_it_is_and_moves_nothing(tmp_path: Path) -> None:
    run = made(tmp_path, "_x$\\frac{", env=HOSTILE, algorithm=HOSTILE)
    for answer in answers(by_seed([run]), nothing):
        files = answer.files("svg", "png")
        assert b"<script" not in files["svg"]
        assert "\x1b" not in answer.caption


def test_a_report_has_everything_in_one_file_and_executes_nothing(tmp_path: Path) -> None:
    made(
        tmp_path, "first", env=HOSTILE, settings={HOSTILE: HOSTILE, "lr": 1e-3},
        env_spec={"name": HOSTILE}, origin={"command": HOSTILE},
    )  # fmt: skip
    page = report(tmp_path / "first", nothing)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    links = re.findall(r"""(?:src|href)="([^"]{0,30})""", page)
    assert all(link.startswith(("data:image/", "#")) for link in links)
    assert len(re.findall("<figure>", page)) == 6
    assert "default-src 'none'" in page
    for words in ("Bill", "Settings", "Environment", "Versions", "cpu_seconds_held", "12.5",
                  "0.001", "0.2.0", "Who did what when?"):  # fmt: skip
        assert words in page


def test_of_a_killed_run_there_is_a_report_too(tmp_path: Path) -> None:
    run = made(tmp_path, "first")
    (run.folder / "summary.json").unlink()
    (run.folder / "journal.jsonl").write_text("{damaged\n")
    told = list[str]()
    page = report(run.folder, told.append)
    assert "killed" in page
    (why,) = told
    assert "Who did what when?" in why
    assert "journal.jsonl: it is damaged" in why
    assert f"<p>Left out: {escape(why)}</p>" in page
    assert page.count("Who did what") == 1


@pytest.mark.parametrize("name", ["env_spec", "origin", "host"])
def test_what_only_readers_of_a_report_read_may_be_anything(name: str, tmp_path: Path) -> None:
    told = list[str]()
    assert "<td>[1,2]</td>" in report(made(tmp_path, "a", **{name: [1, 2]}).folder, told.append)


def test_what_only_the_timeline_needs_takes_nothing_from_the_rest(tmp_path: Path) -> None:
    told = list[str]()
    page = report(made(tmp_path, "a", plan="?").folder, told.append)
    assert "How much does it earn after so many steps?" in page
    (why,) = told
    assert "config.json" in why


@pytest.mark.parametrize("file", ["config.json", "episodes.csv", "progress.csv"])
def test_one_damaged_run_of_several_is_named_and_the_others_are_drawn(
    file: str, tmp_path: Path
) -> None:
    damaged, whole = made(tmp_path, "a"), made(tmp_path, "b")
    (damaged.folder / file).write_bytes(b"step,\xff\n1\xff\n")
    told = list[str]()
    assert readable([damaged, whole], told.append) == [whole]
    (why,) = told
    assert why.startswith(f"{damaged.folder / file} ")
    with pytest.raises(Refused, match=f"a/{file}"):
        readable([ReadRun(damaged.folder)], nothing)
    with pytest.raises(Refused, match="there is no run"):
        readable([whole, ReadRun(tmp_path / "none")], nothing)


@pytest.mark.parametrize("file", ["config.json", "episodes.csv", "progress.csv"])
def test_a_damaged_record_is_named(file: str, tmp_path: Path) -> None:
    run = made(tmp_path, "first")
    (run.folder / file).write_bytes(b"step,\xff\n1\xff\n")
    with pytest.raises(Refused, match=file):
        report(run.folder, nothing)


@pytest.mark.parametrize(
    "damage", [{"best": "x"}, {"lag_histogram": []}, {"lag_histogram": {"x": 1}}]
)
def test_a_summary_of_another_kind_is_named(damage: dict[str, Any], tmp_path: Path) -> None:
    run = made(tmp_path, "first")
    file = run.folder / "summary.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | damage))
    (run.folder / "progress.csv").unlink()
    with pytest.raises(Refused, match=r"summary\.json"):
        report(run.folder, nothing)


def slices(*at: tuple[float, float]) -> list[dict[str, Any]]:
    name = {"ph": "M", "tid": 1000, "ts": 0, "name": "thread_name", "args": {"name": "actor 0"}}
    return [name] + [
        {"ph": "X", "tid": 1000, "cat": "actors", "name": "sample", "ts": 1e6 * t, "dur": 1e6 * d}
        for t, d in at
    ]


def test_slices_that_cannot_be_told_apart_are_one() -> None:
    told = timeline(slices((0.0, 1.0), (1.001, 1.0), (50.0, 50.0)))
    assert told.rows == {"actor 0": {"sample": [(0.0, 2.001), (50.0, 50.0)]}}
    assert (told.begin, told.end) == (0.0, 100.0)


def test_a_million_slices_become_few() -> None:
    told = timeline(slices(*((t / 1e3, 4e-4) for t in range(100_000))))
    assert len(told.rows["actor 0"]["sample"]) == 1


def test_the_commands_write_files_and_say_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2):
        made(tmp_path / "runs", f"run-{seed}", seed)
    (tmp_path / "runs" / "sweep.csv").touch()
    here = ["runs/run-1", "runs/run-2", "runs/sweep.csv", "run-1"]  # runs/* of a sweep's folder
    assert main(["plot", *here, "--by", "seed", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["figures"]) == 5
    names = {each["name"] for each in told["figures"]}
    files = {path.name for path in (tmp_path / "figures").iterdir()}
    assert files == {f"{n}.{kind}" for n in names for kind in ("svg", "png")} | {"captions.md"}
    assert main(["report", "run-1"]) == 0
    assert (tmp_path / "run-1-report.html").is_file()
    assert main(["plot", "none"]) == 2
    assert "none" in capsys.readouterr().err


def test_what_is_damaged_is_said_and_told_by_the_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made(tmp_path, "a").folder.joinpath("progress.csv").write_bytes(b"\xff\n\xff\n")
    made(tmp_path, "b").folder.joinpath("journal.jsonl").write_text("{damaged\n")
    assert main(["plot", "a", "b"]) == 1
    told = capsys.readouterr()
    assert "return-by-steps" in told.out
    for file in ("a/progress.csv is damaged", "Who did what when?"):
        assert file in told.err
        assert file in (tmp_path / "figures" / "captions.md").read_text().partition("Left out")[2]
    assert main(["plot", "a", "b", "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["left_out"]) == 2
    assert main(["report", "b"]) == 1
    assert "Who did what when?" in capsys.readouterr().err
    assert main(["plot", "a"]) == 2


def test_captions_are_text_whatever_runs_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "<img src=x onerror=alert(1)> ![x](y) `z` _a_ max_lag & $t$"
    made(tmp_path, name)
    assert main(["plot", name]) == 0
    captions = (tmp_path / "figures" / "captions.md").read_text()
    assert "<img" not in captions
    shown = r"&lt;img src=x onerror=alert(1)&gt; !\[x\](y) \`z\` \_a\_ max_lag &amp; \$t\$:"
    assert shown in captions


@pytest.mark.parametrize("command", ["plot", "report", "trace"])
def test_where_nothing_can_be_written_that_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path / "runs", "run-1", 1)
    (tmp_path / "file").touch()
    output = tmp_path / "file" / "output"
    assert main([command, str(tmp_path / "runs" / "run-1"), "-o", str(output)]) == 2
    assert f"-o {output}: Not a directory" in capsys.readouterr().err
