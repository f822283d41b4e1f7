"""What crosses between environments and policies is what a plain loop of Gymnasium sees.

Environments keep, reuse, overwrite and dress up whatever array passes, and what they do and pay
follows from each byte of what they are given. So what is stored, learned from and reported is right
in every row, or some row is far off.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import told
from cases import ACTOR_CRITICS, ALGORITHMS, REPLAYING, Case, covering, named, pairs
from checks import ENVS, check_episodes, check_evaluation, check_evaluator, check_run, same
from gymnasium.vector import AutoresetMode
from inline_runs import commanded
from odd_envs import Odd
from odd_worlds import ARRAYS, OBSERVED, Habits
from plain_loop import parts_of, rows_of
from real_cluster import Cluster
from real_runs import Artos

import artos
from artos.envs.make import make_vector
from artos.envs.serial import SerialVectorEnv
from artos.envs.spec import spec_of
from artos.envs.stepper import Stepper
from artos.envs.trial import some_actions
from artos.policies.fast import _tensors
from artos.runtime.examination import examine
from artos.trained.observations import batch_of
from deploy.local.run import run
from head.run.request import Request

HERE = Path(__file__).parent
PARTS = 8
"""Of tests that would take too long on a busy machine."""
RESULTS = ("terminations", "truncations", "valid")
FOUND: dict[str, Case] = {
    "arrays that run backwards": ("td3", Habits(
        shown="reversed", acted="doubles", made="own NEXT_STEP")),
    "arrays that are read-only": ("sac", Habits(
        "dict", "doubles", "readonly", made="own DISABLED")),
    "spaces of another byte order": ("dqn", Habits("swapped", shown="wide")),
    "floats of more than 64 bits": ("td3", Habits("long", "swapped", taken="writes")),
    "one info for all environments": ("a2c", Habits("grid", "grid", infos="shared", masks="info")),
    "one array for all vectors of a process": (
        "a2c", Habits("bools", "categories", "shared", "writes", made="own SAME_STEP"),
    ),
    "last observations in a list": (
        "ppo", Habits("category", "number", "list", ends="truncates", made="own SAME_STEP"),
    ),
}  # fmt: skip
"""What once was not right."""


@contextmanager
def again(case: Case, mode: str, recurrent: bool = False) -> Iterator[None]:
    """Say how to try a case that fails again."""
    algorithm, habits = case
    flags = f"--set algorithm={algorithm} --set recurrent={recurrent} {mode}"
    try:
        yield
    except BaseException as error:
        error.add_note(f'again: artos run told.py:workload --env "{named(habits)}" {flags}')
        error.add_note(f"or: crossed({case}, folder)")
        raise


def crossed(case: Case, folder: Path, recurrent: bool = False) -> None:
    """Everything of a run in this process, and evaluations of what it learned."""
    algorithm, habits = case
    tales = folder / "told"
    tales.mkdir(parents=True)
    os.environ[told.FOLDER] = str(tales)
    settings = {"algorithm": algorithm, "env": named(habits), "recurrent": recurrent}
    with again(case, "--inline", recurrent):
        run(Request("told.py:workload", settings, 1, folder / "run", inline=True, quiet=True,
                    folder=HERE))  # fmt: skip
        check_run(folder / "run", tales, habits)
        check_evaluator(folder / "run", habits)
        check_evaluation(folder / "run", habits)
        if not recurrent:
            check_evaluation(folder / "run", habits, greedy=False)


@pytest.fixture(autouse=True)
def _variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(told.FOLDER, "")


def all_crossed(cases: Iterable[Case], folder: Path) -> None:
    """Try all cases, and fail with all that failed; some policies have a memory."""
    failures = []
    for number, case in enumerate(cases):
        recurrent = case[0] in ACTOR_CRITICS and number % 4 == 3
        try:
            crossed(case, folder / str(number), recurrent)
        except Exception as error:
            failures.append(error)
    if failures:
        raise ExceptionGroup("not what a plain loop sees", failures)


@pytest.mark.parametrize("name", FOUND)
def test_what_was_once_wrong(name: str, tmp_path: Path) -> None:
    crossed(FOUND[name], tmp_path)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_sample(algorithm: str, tmp_path: Path) -> None:
    crossed(next(covering([algorithm], 3)), tmp_path)


def test_a_memory(tmp_path: Path) -> None:
    crossed(("ppo", Habits("tuple", "small", "reused", "keeps")), tmp_path, recurrent=True)


@pytest.mark.long
@pytest.mark.parametrize("algorithms", [ACTOR_CRITICS, REPLAYING], ids=" ".join)
def test_each_habit(algorithms: Sequence[str], tmp_path: Path) -> None:
    """Those that are given rows in the same way have each habit once."""
    all_crossed(covering(algorithms, 1), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.exhaustive) for part in range(1, PARTS))]
)
def test_each_array_of_each_kind_of_environment(part: int, tmp_path: Path) -> None:
    all_crossed(islice(pairs("shown", "made", 2), part, None, PARTS), tmp_path)


# -- steps alone -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("observed", "shown", marks=pytest.mark.long),
        ("acted", "made"),
        ("shown", "made"),
    ],
)
def test_each_two_habits(first: str, second: str) -> None:
    """Those that have nothing to do with an algorithm, in thousandths of the time of a run."""
    for number, case in enumerate(pairs(first, second, 3)):
        if case[1].observed != "frames":
            with again(case, "--inline"):
                check_steps(case, number)


def test_each_can_be_examined() -> None:
    """``artos check`` steps it bare, too: with actions that are allowed, and never beyond ends."""
    for case in islice(pairs("masks", "made", 5), 0, None, 2):
        with again(case, "--inline"):
            found = examine(named(case[1]), 0.01)
            assert (found.differs, bool(found.spec.masked)) == ("", bool(case[1].masks))


@pytest.mark.parametrize("shown", ARRAYS)
def test_act_takes_what_it_shows(shown: str) -> None:
    for observed in OBSERVED:
        env = Odd(Habits(observed, shown=shown))
        spec = spec_of(observed, SerialVectorEnv([lambda env=env: env]))  # type: ignore[misc]
        obs, info = env.reset(seed=3)
        found, single = batch_of(obs, spec)
        assert single
        for name, part in parts_of(env, env.world.seen(env.observation_space), info, False).items():
            same(found[name][0], part, name)
        assert _tensors(found).keys() == found.keys(), "without a warning"


def check_steps(case: Case, seed: int) -> None:
    """Steps with random actions, their last observations too, beside a plain loop."""
    algorithm, habits = case
    mode = AutoresetMode.SAME_STEP if algorithm in ACTOR_CRITICS else AutoresetMode.NEXT_STEP
    vector = make_vector(named(habits), ENVS, 0, mode)
    stepper = Stepper(vector, autoreset=mode, masked=habits.masks == "info")
    rng, rows = np.random.default_rng(seed), []
    parts, finals, actions = stepper.reset(seed), {}, []
    for at in range(10):
        row = {name: part.copy() for name, part in parts.items()}
        actions.append(some_actions(stepper, parts, rng))
        step = stepper.step(actions[-1].copy())
        row |= {name: np.array(getattr(step, name)) for name in RESULTS}
        rows.append(row | {"rewards": step.rewards.astype(np.float32)})
        for i, env in enumerate([] if step.ended is None else step.ended.tolist()):
            assert step.final is not None
            finals[at, env] = {name: part[i].copy() for name, part in step.final.items()}
        parts = step.obs
    stepper.close()
    waits, twice = stepper.spec.skips_rows, habits.made.endswith("DISABLED")
    for env in range(ENVS):
        stored = np.array([row[env] for row in actions])
        wanted = rows_of(habits, seed + env, stored, waits=waits, twice=waits and twice)
        for at, (found, row) in enumerate(zip(rows, wanted, strict=True)):
            for name in found.keys() | row.keys():
                same(found[name][env], row[name], f"{name} of step {at} of {env}")
            for name, part in finals.pop((at, env), {}).items():
                same(part, row.following[name], f"last {name}, after step {at} of {env}")
    assert not finals


# -- processes ---------------------------------------------------------------------------------


def all_commanded(cases: Iterable[Case], folder: Path) -> None:
    """The same by commands, with processes; fails with all that failed."""
    failures = []
    for number, case in enumerate(cases):
        try:
            run_and_played(case, home_in(folder / str(number)))
        except Exception as error:
            failures.append(error)
    if failures:
        raise ExceptionGroup("not what a plain loop sees", failures)


def home_in(folder: Path) -> Path:
    """A user's folder with these algorithms and environments, and one for what they tell."""
    (folder / "told").mkdir(parents=True)
    for file in HERE.glob("*.py"):
        shutil.copy(file, folder)
    os.environ[told.FOLDER] = str(folder / "told")
    return folder


def asked_for(case: Case) -> tuple[str, ...]:
    algorithm, habits = case
    return ("told.py:workload", "--set", f"algorithm={algorithm}", "--env", named(habits), "--json")


def run_and_played(case: Case, home: Path) -> None:
    """A run by commands, and evaluations of it."""
    with again(case, ""):
        process = Artos(home, ("run", *asked_for(case), "--run-dir", "r"))
        try:
            outcome = process.wait()
            assert outcome.status == 0, outcome.err
        finally:
            process.end()
        check_run(home / "r", home / "told", case[1])
        check_evaluator(home / "r", case[1])
        few = ("--episodes", 5, "--seed", 7, "--greedy", "--json", "--trust")
        evaluated = commanded(home, ("eval", "r", *few))
        assert evaluated.status == 0, evaluated.err
        played = evaluated.summary
        trained = artos.load(home / "r", trust=True)
        check_episodes(trained, case[1], played["returns"], played["lengths"])


@pytest.mark.processes
@pytest.mark.long
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.exhaustive) for part in range(1, PARTS))]
)
def test_habits_in_processes(part: int, tmp_path: Path) -> None:
    """What crosses there is what does in one process."""
    all_commanded(islice(covering(ALGORITHMS, 4), part, None, PARTS), tmp_path)


@pytest.mark.processes
@pytest.mark.long
def test_on_two_nodes(tmp_path: Path) -> None:
    home, cases = home_in(tmp_path / "code"), (
        ("ppo", Habits("frames", shown="readonly", taken="writes", paid="one", said="zero-d")),
        ("td3", Habits("swapped", "doubles", "reversed", "keeps", made="own DISABLED")),
    )  # fmt: skip
    cluster = Cluster(tmp_path)
    try:
        for node in ("w1", "w2"):
            cluster.start_worker(node)
        cluster.alive("w1", "w2")
        for case in cases:
            with again(case, ""):
                submitted = cluster.submit(*asked_for(case), cwd=home)
                assert submitted.wait() == 0, cluster.story()
                summaries = cluster.runs.glob("*/summary.json")
                run_folder = max(summaries, key=lambda path: path.stat().st_mtime).parent
                check_run(run_folder, home / "told", case[1])
                check_evaluation(run_folder, case[1])
            for file in (home / "told").iterdir():
                file.unlink()
    finally:
        cluster.close()
