"""`artos branch`: an episode of a live run is continued beside it, and the run does not notice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_nothing_left
from real_runs import Artos, Outcome, checkpointed, shared_memory

from artos.buffer.shm_folder import PREFIX
from artos.specs.members import ACTORS, Member
from artos.system.shm import shm_root

pytestmark = pytest.mark.processes

Start = Callable[..., ElasticRun]
HERE = Path(__file__).parent
SMALL = {"envs": 2, "steps": 16, "minibatches": 2, "epochs": 2, "max_lag": 0}
STEPS = 2 * 2 * 16 * 100


@pytest.fixture
def slow(home: Path) -> Path:
    """While this file is there, runs in the user's folder take their time."""
    shutil.copy(HERE / "slow_pole.py", home)
    file = home / "slow"
    file.touch()
    return file


def branch(home: Path, *arguments: object) -> Outcome:
    """`artos branch run ...`."""
    folder = home / "branch"
    folder.mkdir(exist_ok=True)
    return Artos(folder, ("branch", home / "run", *arguments)).wait()


def found(outcome: Outcome) -> Any:
    assert outcome.status == 0, outcome.err
    return json.loads(outcome.out)


def begun(start: Start, **settings: object) -> ElasticRun:
    return start(
        "ppo", "--env", "slow_pole:pole", "--actors", 2, "--total-steps", STEPS, "--seed", 4,
        **{**SMALL, **settings},
    )  # fmt: skip


@pytest.mark.long
def test_what_has_not_ended_in_time_is_ended_and_shown(
    start: Start, home: Path, slow: Path
) -> None:
    """While the run is slow, so is what continues its episodes; nothing of it is left."""
    run = begun(start)
    run.until(lambda: run.updates)
    outcome = branch(home, "--times", 50, "--deadline", 0.3, "--json")
    assert outcome.status == 1
    children = json.loads(outcome.out)["children"]
    late = [child for child in children if child["fault"]]
    assert late
    assert {(child["return"], child["ended"]) for child in late} == {(None, False)}
    assert all("it had not ended after 0.3 s" in child["fault"] for child in late)
    ended = branch(home, "--times", 3, "--until", 1, "--json")
    assert all(child["steps"] == 1 for child in found(ended)["children"])
    slow.unlink()
    run.done()
    assert_nothing_left(home)


@pytest.mark.long
def test_a_run_that_was_branched_learns_what_it_would_have(
    start: Start, home: Path, slow: Path
) -> None:
    run = begun(start)
    run.until(lambda: run.updates)
    first = found(branch(home, "--actor", 1, "--times", 5, "--json"))
    second = found(branch(home, "--times", 3, "--until", 4, "--env", 1, "--seed", 9, "--json"))
    words = branch(home, "--times", 2)
    wrong = [
        branch(home, "--actor", 2, "--times", 2),
        branch(home, "--env", 2, "--times", 2),
        branch(home, "--times", 0),
        branch(home, "--times", 2, "--until", "tomorrow"),
        branch(home, "--times", 2, "--until", 0),
    ]
    slow.unlink()
    summary = run.done()
    over = branch(home, "--times", 2)
    branches = sorted(each.name for each in (run.folder / "branches").iterdir())
    learned = checkpointed(run.folder)
    assert_nothing_left(home)
    run.folder.rename(home / "branched")
    begun(start).done()

    assert (first["actor"], first["env"], first["by"]) == (1, 0, "fork")
    assert len(first["children"]) == 5
    assert {child["digest"] for child in first["children"]} == {first["digest"]}
    assert len({child["seed"] for child in first["children"]}) == 5
    assert all(child["ended"] and not child["fault"] for child in first["children"])
    assert [child["return"] for child in first["children"]] == [
        child["steps"] for child in first["children"]
    ]
    assert len({child["steps"] for child in first["children"]}) > 1
    assert second["env"] == 1
    assert all(child["steps"] <= 4 for child in second["children"])
    assert "2 of 2 continuations, by fork" in words.out
    assert [each.status for each in wrong] == [2] * 5
    for each, said in zip(
        wrong, ("no actor 2: 2 take part", "no environment 2", "times=0", "tomorrow", "until=0"),
        strict=True,
    ):  # fmt: skip
        assert said in each.err
    assert over.status == 2 or "no live run" in over.err
    assert branches == ["1.json", "2.json", "3.json"]
    assert (summary["steps"], summary["restarts"]) == (STEPS, 0)
    for name, array in checkpointed(run.folder).items():
        np.testing.assert_array_equal(learned[name], array, err_msg=name)


@pytest.mark.long
@needs_criu
@pytest.mark.parametrize(
    "park", ["freeze", pytest.param("checkpoint", marks=pytest.mark.exhaustive)]
)
def test_an_actor_is_branched_wherever_it_waits(
    park: str, start: Start, home: Path, slow: Path
) -> None:
    run = begun(start, park=park)
    run.until(lambda: run.updates)
    children = found(branch(home, "--times", 3, "--json"))["children"]
    assert [child["fault"] for child in children] == [""] * 3
    slow.unlink()
    assert run.done()["restarts"] == 0
    assert_nothing_left(home)


@pytest.mark.long
@needs_criu
@pytest.mark.usefixtures("atari")
def test_an_emulator_with_threads_is_branched_by_copies_of_an_image(
    start: Start, home: Path
) -> None:
    def pong() -> ElasticRun:
        # One thread: how many there are decides in which order a learner adds up.
        return start("ppo", "--env", "PongNoFrameskip-v4", "--total-steps", 4096, "--seed", 4,
                     actors=1, envs=1, steps=128, epochs=1, max_lag=0, threads=1)  # fmt: skip

    (home / "before").mkdir()
    words = (
        "ppo",
        "--env",
        "PongNoFrameskip-v4",
        "--total-steps",
        128,
        "--run-dir",
        home / "other",
    )
    small = [word for each in ("envs=1", "steps=128", "epochs=1") for word in ("--set", each)]
    assert Artos(home / "before", ("run", *words, "--inline", *small)).wait().status == 0
    run = pong()
    run.until(lambda: run.updates)
    first = found(branch(home, "--times", 4, "--until", 20, "--json"))
    greedy = found(branch(home, "--times", 2, "--until", 40, "--greedy", "--json"))
    other = found(branch(home, "--times", 2, "--until", 20, "--with", home / "other", "--json"))
    summary = run.done()
    learned = checkpointed(run.folder)
    assert_nothing_left(home)
    run.folder.rename(home / "branched")
    pong().done()
    assert first["by"] == greedy["by"] == other["by"] == "clone"
    assert {(c["weights"], c["version"]) for c in other["children"]} == {(str(home / "other"), 1)}
    for each in (first, greedy, other):
        assert {child["digest"] for child in each["children"]} == {each["digest"]}
        assert [child["fault"] for child in each["children"]] == [""] * len(each["children"])
    assert len({child["seed"] for child in first["children"]}) == 4
    assert [child["steps"] for child in first["children"]] == [20] * 4
    assert len({child["return"] for child in greedy["children"]}) == 1, "nothing else is random"
    assert summary["restarts"] == 0
    for name, array in checkpointed(run.folder).items():
        np.testing.assert_array_equal(learned[name], array, err_msg=name)


@pytest.mark.long
@pytest.mark.usefixtures("atari")
def test_sixteen_continuations_of_a_single_emulator_go_ways_of_their_own(
    start: Start, home: Path
) -> None:
    shutil.copy(HERE / "one_pong.py", home)
    # Far more steps than there is time for: it is ended with the test.
    run = start("ppo", "--env", "one_pong:pong", "--total-steps", 10**7, "--seed", 4,
                actors=1, envs=1, steps=128, epochs=1, threads=1)  # fmt: skip
    run.until(lambda: run.updates)
    played = found(branch(home, "--times", 16, "--until", 60, "--json"))
    children = played["children"]
    assert played["by"] == "fork"
    assert [child["fault"] for child in children] == [""] * 16
    assert {child["digest"] for child in children} == {played["digest"]}
    assert len({child["seed"] for child in children}) == 16
    assert [child["steps"] for child in children] == [60] * 16
    assert len({child["return"] for child in children}) == 16, "no two of them did the same"


@pytest.mark.long
def test_other_weights_play_on_and_those_that_do_not_fit_are_refused(
    start: Start, home: Path, slow: Path
) -> None:
    for folder, words in (
        ("other", ("ppo", "--env", "slow_pole:pole")),
        ("foreign", ("a2c", "--env", "Acrobot-v1")),
    ):
        (home / folder).mkdir()
        shutil.copy(HERE / "slow_pole.py", home / folder)
        arguments = ("run", *words, "--total-steps", 512, "--run-dir", home / "runs" / folder)
        assert Artos(home / folder, (*arguments, "--inline")).wait().status == 0
    run = begun(start, evaluate_every=1, evaluation_episodes=1)
    run.until((run.folder / "best" / "manifest.json").exists)
    other = found(branch(home, "--times", 4, "--with", home / "runs" / "other", "--json"))
    best = found(branch(home, "--times", 2, "--best", "--greedy", "--json"))
    words = branch(home, "--times", 2, "--best")
    wrong = branch(home, "--times", 2, "--actor", 7, "--with", home / "runs" / "foreign", "--best")
    branches = sorted(each.name for each in (run.folder / "branches").iterdir())
    slow.unlink()
    assert run.done()["restarts"] == 0
    assert_nothing_left(home)
    for played, folder in ((other, home / "runs" / "other"), (best, home / "run")):
        children = played["children"]
        assert [child["fault"] for child in children] == [""] * len(children)
        assert {child["digest"] for child in children} == {played["digest"]}
        assert {child["weights"] for child in children} == {str(folder)}
    (version,) = {child["version"] for child in other["children"]}
    manifest = json.loads((home / "runs" / "other" / "checkpoint" / "manifest.json").read_text())
    assert version == manifest["version"]
    assert len({child["return"] for child in best["children"]}) == 1, "nothing else is random"
    assert "by fork, with version" in words.out
    assert wrong.status == 2
    for said in ("no actor 7", "Acrobot-v1 showed", "takes actions", "evaluate_every"):
        assert said in wrong.err
    assert branches == ["1.json", "2.json", "3.json"]


@pytest.mark.long
def test_an_actor_that_is_killed_takes_its_continuations_with_it(
    start: Start, home: Path, slow: Path
) -> None:
    run = begun(start)
    run.until(lambda: run.updates)
    (home / "branch").mkdir()
    asking = Artos(home / "branch", ("branch", home / "run", "--times", 500, "--json"))
    (memory,) = shm_root().glob(f"{PREFIX}run.*")
    run.until(lambda: list(memory.glob("branch-1")))
    run.kill(Member(ACTORS, 0))
    outcome = asking.wait()
    children = json.loads(outcome.out)["children"]
    assert outcome.status == 1
    assert len(children) == 500
    assert "was not made" in children[-1]["fault"]
    again = found(branch(home, "--actor", 1, "--times", 2, "--json"))
    assert [child["fault"] for child in again["children"]] == ["", ""]
    slow.unlink()
    assert run.done()["restarts"] == 1
    assert_nothing_left(home)


@pytest.mark.long
def test_continuations_end_with_the_run(start: Start, home: Path, slow: Path) -> None:
    run = begun(start)
    run.until(lambda: run.updates)
    (home / "branch").mkdir()
    asking = Artos(home / "branch", ("branch", home / "run", "--times", 500, "--seed", 1, "--json"))
    (memory,) = shm_root().glob(f"{PREFIX}run.*")
    run.until(lambda: list(memory.glob("branch-1")))
    run.process.kill()
    run.process.wait()
    outcome = asking.wait()
    assert outcome.status == 1
    assert "no live run" in outcome.err
    slow.unlink()
    run.end()
    ElasticRun.clean(home)
    assert not shared_memory()
