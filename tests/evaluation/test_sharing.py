"""Several copies of a measurement as one, what they are compared with, and the figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evaluation.core.report import Ratio, Results
from evaluation.core.runner import Answer
from evaluation.sharing import bench, figures
from evaluation.sharing.ideal import cpu_seconds, ideal
from evaluation.sharing.several import at_once, merged


def answer(update: float = 3.0, held: float = 5.0) -> Answer:
    return Answer({"update_s": update, "held_cpu_s": held}, {"torch": "2"})


def test_what_is_held_is_added_and_update_times_are_averaged() -> None:
    found = merged([answer(), answer(update=5.0, held=7.0)], 9.0)
    assert found.rates["held_cpu_s"] == 12.0
    assert found.rates["update_s"] == 4.0
    assert found.rates["makespan_s"] == 9.0
    assert found.versions == {"torch": "2"}


def test_each_copy_is_measured() -> None:
    measured: list[Answer] = []

    def single() -> Answer:
        measured.append(answer())
        return measured[-1]

    assert at_once(single, 3)().rates["held_cpu_s"] == 15.0
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


# -- the benchmark -----------------------------------------------------------------------------

ANSWER = Answer(
    {"update_s": 2.0, "ideal_s": 2.0, "held_cpu_s": 4.0, "used_cpu_s": 3.0, "held_device_s": 6.0,
     "run_s": 6.0, "mean_s": 1.5, "makespan_s": 9.0},
    {},
)  # fmt: skip


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Results:
    """A full measurement in which every run, ours or Ray's, gives the same answer."""
    for name in ("ours", "baseline"):
        monkeypatch.setattr(bench, name, lambda *arguments, **options: lambda: ANSWER)
    return bench.measure(1, quick=False, say=lambda text: None)


def test_each_case_is_measured_once_and_every_ratio_is_about_two_of_them(measured: Results) -> None:
    report = measured.report()
    assert {row.n for row in report.rows} == {1}
    assert all(ratio.median is not None for ratio in report.ratios)


def test_a_script_of_rays_has_a_device_to_its_end_and_tells_the_mean_update(
    measured: Results,
) -> None:
    found = {
        key: measured.median(bench.named("SAC", 4, bench.RAY_BY_TWO, key)) for key in bench.MEASURES
    }
    assert (found["held_device_s"], found["makespan_s"], found["update_s"]) == (6.0, 9.0, 1.5)


def test_several_in_turn_take_as_many_times_what_one_takes(measured: Results) -> None:
    def of(who: str, count: int) -> list[float | None]:
        return [measured.median(bench.named("PPO", count, who, key)) for key in bench.MEASURES]

    assert of(bench.RAY, 1) == [1.5, 9.0, 4.0, 3.0, 6.0]
    assert of(bench.RAY_IN_TURN, 4) == [1.5, 36.0, 16.0, 12.0, 24.0]
    one = measured.median(bench.named("PPO", 1, bench.OURS, "makespan_s"))
    assert one
    assert measured.median(bench.named("PPO", 4, bench.IN_TURN, "makespan_s")) == 4 * one


def test_what_several_hold_is_compared_with_what_has_no_more_devices(measured: Results) -> None:
    ratios = measured.report().ratios
    for key in bench.HELD:
        for count, who in ((2, bench.RAY_IN_TURN), (4, bench.RAY_IN_TURN)):
            mine = bench.named("PPO", count, bench.OURS, key)
            (ratio,) = [each for each in ratios if each.case == mine]
            assert ratio.against == bench.named("PPO", count, who, key)


def test_goals_against_ray_are_for_ppo_and_the_makespan_of_four(measured: Results) -> None:
    def judged(ratio: Ratio) -> bool:
        return ratio.against.rpartition(": ")[2] in bench.RAYS and ratio.goal is not None

    found = {(ratio.case, ratio.goal) for ratio in measured.report().ratios if judged(ratio)}
    held = {("held_cpu_s", 0.5), ("held_device_s", 0.42)}
    goals = {(bench.named("PPO", n, bench.OURS, k), g) for n in (1, 2, 4) for k, g in held}
    assert found == goals | {(bench.named("PPO", 4, bench.OURS, "makespan_s"), 0.6)}


def test_ours_is_compared_with_the_way_of_rays_that_is_done_first() -> None:
    results = Results("sharing", 1)
    for who, makespan in ((bench.OURS, 100.0), (bench.RAY, 262.0), (bench.RAY_NARROW, 180.0)):
        for key in bench.MEASURES:
            results.add(bench.named("PPO", 4, who, key), "s", makespan)
    for key in bench.MEASURES:
        results.add(bench.named("PPO", 4, bench.RAY_IN_TURN, key), "s", 168.0)
    bench.compare(results)
    mine = bench.named("PPO", 4, bench.OURS, "makespan_s")
    (ratio,) = [r for r in results.report().ratios if r.case == mine and r.goal is not None]
    assert ratio.against == bench.named("PPO", 4, bench.RAY_IN_TURN, "makespan_s")
    assert ratio.median == pytest.approx(100 / 168)


def test_scripts_with_ray_get_the_sizes_of_ours() -> None:
    assert bench.SAC.options() == ("--batch", "256", "--ratio", "64", "--after", "500")
    assert bench.ppo(3).options()[:4] == ("--envs", "4", "--steps", "128")


def test_figures_are_drawn_also_of_what_is_absent(measured: Results, tmp_path: Path) -> None:
    measured.absent(bench.named("SAC", 4, bench.RAY, "update_s"), "s", "it failed")
    drawn = figures.draw_all(measured.report(), tmp_path / "sharing.json")
    names = ["sharing.png", "sharing-figure-13.png", "sharing-figure-14.png"]
    assert [path.name for path in drawn] == names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)
