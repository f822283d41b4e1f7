"""The documents say what is so: their examples are the files, and the files run."""

import csv
import json
import re
import shutil
import signal
import subprocess
import time

import pytest
from helpers import PATIENCE, ROOT, unrolled
from language_models import needs_llm, needs_smollm2
from learned import learned
from real_runs import Artos
from user_folder import UserFolder

EXAMPLES = ROOT / "docs" / "examples"
SHOWN_IN = {
    "my_agents.py": "docs/how-to/agents.md",
    "my_league.py": "docs/how-to/agents.md",
    "my_market.py": "docs/how-to/agents.md",
    "my_actor.py": "docs/how-to/own-actor.md",
    "my_branches.py": "docs/how-to/branch.md",
    "my_tree_search.py": "docs/how-to/branch.md",
    "my_algo.py": "docs/tutorial.md",
    "my_trigger.py": "docs/tutorial.md",
    "my_curriculum.py": "docs/how-to/runs.md",
    "my_demos.py": "docs/how-to/data.md",
    "my_reward.py": "docs/how-to/data.md",
    "my_dqn.py": "docs/how-to/own-algorithm.md",
    "my_es.py": "docs/how-to/whole-episodes.md",
    "my_env.py": "docs/how-to/environments.md",
    "my_groups.py": "docs/how-to/whole-episodes.md",
    "my_judge.py": "docs/how-to/answers.md",
    "my_pipeline.py": "docs/how-to/pipelines.md",
    "my_reinforce.py": "docs/how-to/whole-episodes.md",
    "my_replicas.py": "docs/how-to/replicas.md",
    "my_text.py": "docs/how-to/tokens.md",
    "my_self_play.py": "docs/how-to/what-actors-read.md",
    "my_population.py": "docs/how-to/several-learners.md",
    "my_two_policies.py": "docs/how-to/several-learners.md",
    "my_dyna.py": "docs/how-to/worked-algorithms.md",
    "my_grpo.py": "docs/how-to/worked-algorithms.md",
    "my_inference.py": "docs/how-to/worked-algorithms.md",
    "my_planning.py": "docs/how-to/worked-algorithms.md",
    "my_r2d2.py": "docs/how-to/worked-algorithms.md",
    "my_rainbow.py": "docs/how-to/worked-algorithms.md",
    "my_rnd.py": "docs/how-to/worked-algorithms.md",
    "my_scaling.py": "docs/how-to/elastic-actors.md",
    "optuna_study.py": "docs/how-to/python.md",
    "ray_tune_search.py": "docs/how-to/python.md",
    "peek.py": "docs/how-to/records.md",
    "play.py": "docs/how-to/evaluate.md",
    "table.py": "README.md",
}


def code_blocks(document: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / document).read_text(), re.M | re.S)


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_is_led_to(name: str) -> None:
    pages = [ROOT / "docs" / "tour.md", *(ROOT / "docs" / "how-to").glob("*.md")]
    assert name in SHOWN_IN or any(f"examples/{name})" in page.read_text() for page in pages)


@pytest.mark.parametrize("name", sorted(SHOWN_IN))
def test_shown_code_is_the_file(name: str) -> None:
    text = (EXAMPLES / name).read_text()
    without_docstring = text.split('"""\n\n', 1)[1]
    assert {text, without_docstring} & set(code_blocks(SHOWN_IN[name]))


def test_own_algorithm_takes_fewer_than_60_lines() -> None:
    assert len((EXAMPLES / "my_algo.py").read_text().splitlines()) < 60


@pytest.mark.long
@pytest.mark.processes
def test_own_algorithm_runs_beside_files_called_like_ours(user: UserFolder) -> None:
    ended = user.artos("run", "my_algo.py:workload", "--total-steps", "2048", "--json")
    assert ended.returncode == 0, ended.stderr
    summary = user.summary()
    assert json.loads(ended.stdout) == summary
    assert summary["algorithm"] == "a2c"
    assert summary["steps"] == 2048
    assert summary["updates"] == 8
    assert summary["lag_max"] == summary["restarts"] == summary["rows_lost"] == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("page", "steps", "goal", "mode"),
    [
        ("my_reinforce", 30_000, 100.0, ("--inline",)),
        ("my_groups", 20_000, 0.9, ()),
        ("my_es", 200_000, 250.0, ()),
    ],
    ids=["my_reinforce", "my_groups", "my_es"],
)
@pytest.mark.processes
def test_own_algorithms_learn_from_whole_episodes(
    page: str, steps: int, goal: float, mode: tuple[str, ...], user: UserFolder
) -> None:
    run = ("run", f"{page}.py:workload", "--total-steps", str(steps), "--json", *mode)
    ended = user.artos(*run)
    assert ended.returncode == 0, ended.stderr
    summary = user.summary()
    assert summary["mean_return_100"] > goal
    assert summary["restarts"] == summary["rows_lost"] == 0


@needs_llm
@needs_smollm2
@pytest.mark.timeout(3600)
@pytest.mark.long
@pytest.mark.processes
def test_a_language_model_learns_to_add(user: UserFolder) -> None:
    """Its answers are right more often by 0.15 or more, also to sums that it was never asked."""
    run = ("run", "my_sums.py:workload", "--seed", "1", "--run-dir", "runs/sums", "--json")
    running = user.start(*run, "--total-updates", "10")
    try:
        out, err = running.communicate(timeout=3000)
    finally:
        running.kill()
    assert running.returncode == 0, err
    summary = json.loads(out)
    assert summary["lag_max"] <= 1
    with (user.path / "runs/sums/progress.csv").open() as file:
        found = {row["updates"]: row["metrics/exact_match"] for row in csv.DictReader(file)}
    exact = [float(each) for each in found.values() if each]
    assert sum(exact[-3:]) / 3 >= sum(exact[:3]) / 3 + 0.15
    played = user.artos(
        "eval", "runs/sums", "--env", "my_sums:Sums(held_out=True)", "--episodes", "40", "--json"
    )
    assert played.returncode == 0, played.stderr
    assert json.loads(played.stdout)["mean_return"] >= 0.45  # about 0.25 to begin with


@pytest.mark.long
@pytest.mark.processes
def test_own_algorithm_is_divided(user: UserFolder) -> None:
    """Two processes make each update, and a policy learns by that."""
    steps = ("--total-steps", "50000", "--seed", "1")
    ended = user.artos("run", "my_replicas.py:workload", *steps, "--json")
    assert ended.returncode == 0, ended.stderr
    summary = user.summary()
    assert summary["mean_return_100"] > 60
    assert {"learner", "learner 1"} <= summary["times_by_member"].keys()
    assert summary["restarts"] == summary["rows_lost"] == 0


@pytest.mark.long
@pytest.mark.processes
def test_own_algorithm_on_sequences_from_replay_runs(user: UserFolder) -> None:
    ended = user.artos("run", "my_r2d2.py:workload", "--total-steps", "2000", "--json")
    assert ended.returncode == 0, ended.stderr
    summary = user.summary()
    assert summary["updates"] == pytest.approx(16 * 1000 / 256, abs=8)
    assert summary["restarts"] == summary["rows_lost"] == 0


@pytest.mark.long
@pytest.mark.processes
def test_own_actor_without_torch_learns(user: UserFolder) -> None:
    """At random an arm pays 0.5, the best one 1."""
    ended = user.artos("run", "my_actor.py:workload", "--seed", "1", "--json")
    assert ended.returncode == 0, ended.stderr
    summary = user.summary()
    assert summary["algorithm"] == "bandit"
    assert summary["restarts"] == summary["rows_lost"] == 0
    with next(user.path.glob("runs/*/progress.csv")).open() as file:
        rewards = [float(row["metrics/reward"]) for row in csv.DictReader(file)]
    last = rewards[-10:]  # a row a second, so a quick run has few
    assert sum(last) / len(last) > 0.8


RATIOS = {
    "my_dqn": (8, 64, 1000), "my_apex": (8, 64, 1000), "my_dyna": (8, 64, 500),
    "my_sac": (128, 128, 500), "my_rainbow": (16, 64, 1000), "my_planning": (64, 192, 500),
}  # fmt: skip
"""How often those with a replay buffer draw a row, how many at once, and from which row on."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("page", "window", "bar"),
    [
        ("my_dqn", 20, 100),
        ("my_apex", 20, 80),
        ("my_dyna", 20, 100),
        ("my_vtrace", 20, 80),
        ("my_recurrent", 20, 80),
        ("my_sac", 10, -6),
        ("my_rnd", 50, 0.9),
        ("my_rainbow", 20, 100),
        ("my_planning", 10, 150),
        ("my_inference", 20, 100),
        ("my_grpo", 512, 0.9),
    ],
    ids=str,
)
@pytest.mark.processes
def test_own_algorithms_learn(page: str, window: int, bar: float, user: UserFolder) -> None:
    """At random CartPole returns about 22, pushing -25, and the corridor of my_rnd 0."""
    shutil.copy(ROOT / "tests/support/pushing.py", user.path)
    quicker = ("--env", "pushing:Pushing", "--total-steps", "3000") if page == "my_sac" else ()
    folder = user.path / "runs" / "learnt"
    command = ("run", f"{page}.py:workload", "--seed", "1", "--json", "--run-dir", folder, *quicker)
    run = Artos(user.path, command, ARTOS_SHM=str(user.shm))
    assert learned(run, folder, window, bar)
    summary = user.summary()
    assert summary["restarts"] == summary["rows_lost"] == 0
    if page in RATIOS:
        ratio, batch, after = RATIOS[page]
        wanted, slack = ratio * (summary["steps"] - after), 4 * ratio * 48 + batch
        assert summary["updates"] * batch == pytest.approx(wanted, abs=slack)


@pytest.mark.long
def test_without_novelty_nobody_finds_the_end_of_the_corridor(user: UserFolder) -> None:
    settings = ("--inline", "--set", "weight=0", "--total-steps", "40960", "--json")
    ended = user.artos("run", "my_rnd.py:workload", "--seed", "3", *settings)
    assert ended.returncode == 0, ended.stderr
    assert user.summary()["mean_return_100"] <= 0.1


@pytest.mark.long
@pytest.mark.processes
def test_own_reward_model_comes_to_agree(user: UserFolder) -> None:
    """By chance it agrees with half of the comparisons; CartPole returns 22 then."""
    ended = user.artos("run", "my_asked.py:workload", "--seed", "1", "--json")
    assert ended.returncode == 0, ended.stderr
    assert user.summary()["mean_return_100"] >= 60
    with next(user.path.glob("runs/*/progress.csv")).open() as file:
        agreed = [float(row["metrics/model.agrees"] or 0.5) for row in csv.DictReader(file)]
    assert max(agreed) >= 0.65, "of 400 comparisons"


@pytest.mark.long
@pytest.mark.processes
def test_own_algorithm_uses_a_module_of_the_users_called_like_ours(user: UserFolder) -> None:
    (user.path / "workers.py").write_text("BONUS = 0.02\n")
    algorithm = user.path / "my_algo.py"
    algorithm.write_text("from workers import BONUS\n\n" + algorithm.read_text())
    ended = user.artos("run", "my_algo.py:workload", "--total-steps", "512", "--json")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.long
@pytest.mark.processes
def test_own_algorithm_learns(user: UserFolder) -> None:
    """A random policy makes about 22; untrained for longer it stays there."""
    ended = user.artos("run", "my_algo.py:workload", "--seed", "1", "--json")
    assert ended.returncode == 0, ended.stderr
    assert user.summary()["mean_return_100"] >= 100


@pytest.mark.long
@pytest.mark.processes
def test_own_trigger_staggers_the_weights(user: UserFolder) -> None:
    """Four actors in turn: each is 0, 1, 2 or 3 versions behind, whatever the timing."""
    ended = user.artos("run", "my_trigger.py:staggered", "--total-steps", "5120", "--json")
    assert ended.returncode == 0, ended.stderr
    summary = user.summary()
    assert summary["updates"] == 10
    assert summary["lag_max"] == 3
    assert 1.0 < summary["lag_mean"] < 1.5


@pytest.mark.long
@pytest.mark.processes
def test_own_pipeline_absorbs_each_actor_once(user: UserFolder) -> None:
    """Four actors, ten rounds: a gradient and advantages for each, then a step with the sum."""
    ended = user.artos("run", "my_pipeline.py:eager", "--total-steps", "5120", "--json")
    assert ended.returncode == 0, ended.stderr
    summary = user.summary()
    assert (summary["updates"], summary["lag_max"], summary["rows_lost"]) == (10, 0, 0)
    (path,) = user.path.glob("runs/*/journal.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    fired = [line["trigger"] for line in lines if "trigger" in line]
    for target, times in (("learner.weigh", 40), ("learner.absorb", 40), ("transfer", 120)):
        assert fired.count(target) == times
    assert _last_metric(user, "absorbed_late") == 0


@pytest.mark.long
@pytest.mark.processes
def test_own_scaling_policy_decides(user: UserFolder) -> None:
    goal = ("--set", "goal=10", "--total-steps", "40960", "--json")
    ended = user.artos("run", "my_scaling.py:patient", *goal)
    assert ended.returncode == 0, ended.stderr
    actors = unrolled(user.summary()["actors_by_update"])
    assert (actors[0], actors[-1]) == (2, 8)


def _last_metric(user: UserFolder, name: str) -> float:
    (path,) = user.path.glob("runs/*/progress.csv")
    *_, last = csv.DictReader(path.read_text().splitlines())
    return float(last[f"metrics/{name}"])


@pytest.mark.processes
def test_the_readmes_example_runs(user: UserFolder) -> None:
    shown, _ = code_blocks("README.md")
    assert len(shown.splitlines()) <= 15
    ended = user.artos("run", "table.py:ppo", "--total-steps", "2048", "--json")
    assert ended.returncode == 0, ended.stderr
    assert user.summary()["algorithm"] == "my-ppo"


@pytest.mark.long
@pytest.mark.processes
def test_the_readmes_script_runs(user: UserFolder) -> None:
    workload, script = code_blocks("README.md")
    folder = user.path / "mine"  # in the user's there are files called like ours
    folder.mkdir()
    (folder / "table.py").write_text(workload)
    (folder / "script.py").write_text(script)
    ended = user.python("mine/script.py")
    assert ended.returncode == 0, ended.stderr
    mean, run = ended.stdout.splitlines()[-1].split(maxsplit=1)
    assert float(mean) > 100.0
    assert (user.path / run / "summary.json").exists()


@pytest.mark.long
def test_what_was_trained_is_used(user: UserFolder) -> None:
    trained = ("run", "ppo", "--inline", "--total-steps", "2048", "--run-dir", "runs/first")
    ended = user.artos(*trained, "--json")
    assert ended.returncode == 0, ended.stderr
    played = user.python("play.py", "runs/first")
    assert played.returncode == 0, played.stderr
    lines = played.stdout.splitlines()
    assert lines[-1] == "the program acts the same: True"
    judged = user.artos("eval", "first", "--episodes", "4", "--greedy", "--json")
    assert judged.returncode == 0, judged.stderr
    returns = json.loads(judged.stdout)["returns"]
    assert lines[0].split() == ["return", str(returns[0])]
    assert lines[1].split()[1:5] == [str(each) for each in returns]


def test_own_environment_runs(user: UserFolder) -> None:
    ended = user.artos(
        "run", "ppo", "--env", "my_env:make", "--inline", "--total-steps", "2048", "--json"
    )
    assert ended.returncode == 0, ended.stderr
    assert user.summary()["env"] == "my_env:make"


@pytest.mark.long
def test_explain_runs_nothing(user: UserFolder) -> None:
    shown = user.artos("explain", "my_trigger.py:staggered")
    assert shown.returncode == 0, shown.stderr
    assert "DataKeyTrigger" in shown.stdout
    assert "TakeTurns(actors=4" in shown.stdout
    assert not (user.path / "runs").exists()


@pytest.mark.long
@pytest.mark.processes
def test_buffer_of_a_live_run_can_be_read(user: UserFolder) -> None:
    run = user.start("run", "my_algo.py:workload", "--total-steps", "10000000", "--json")
    try:
        _until_it_learns(user, run)
        (folder,) = user.shm.glob("artos.*")
        seen = user.python("peek.py", str(folder))
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=PATIENCE)
    finally:
        run.kill()
        run.communicate()
    assert run.returncode == 130, errors
    assert seen.returncode == 0, seen.stderr
    assert "next.observations float32  (256, 4)" in seen.stdout
    assert "mean reward 1.0" in seen.stdout
    assert user.summary()["outcome"] == "interrupted"


def _until_it_learns(user: UserFolder, run: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + PATIENCE
    while not any(b"done" in p.read_bytes() for p in user.path.glob("runs/*/journal.jsonl")):
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline, "no firing was answered"
        time.sleep(0.05)
