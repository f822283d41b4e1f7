"""Whether what a run stored, gave its learner and reported is what a plain loop finds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from odd_worlds import Habits
from plain_loop import Loop, Row, episodes_of, rows_of
from told import told

import artos
from artos.policies.acting import ActInfo
from artos.trained.evaluation import SEED
from head.records.episodes import Episodes

Array = np.ndarray[Any, Any]
ENVS, N_STEP, GAMMA = 2, 2, 0.9


def same(found: Any, wanted: Any, where: str) -> None:
    """Numbers, shape and dtype."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), where
    assert np.array_equal(found, wanted), f"{where}: {found} is not {wanted}"


class Stored:
    """What one actor wrote into its block, and what should be there."""

    def __init__(self, habits: Habits, facts: list[dict[str, Any]]) -> None:
        first, rounds = facts[0], [fact for fact in facts if "rows" in fact]
        assert [fact["start"] for fact in rounds] == [
            sum(len(before["rows"]["actions"]) for before in rounds[:i]) for i in range(len(rounds))
        ]
        self.rows = {
            name: np.concatenate([fact["rows"][name] for fact in rounds])
            for name in rounds[0]["rows"]
        }
        self.params = {fact["version"]: fact["params"] for fact in facts if "params" in fact}
        self.waits = "valid" in self.rows
        self.reported = [
            pair for fact in facts if "returns" in fact
            for pair in zip(fact["returns"], fact["lengths"], strict=True)
        ]  # fmt: skip
        seed = first["seed"] % (2**31 - ENVS)
        self.wanted = [
            rows_of(habits, seed + env, self.rows["actions"][:, env],
                    waits=self.waits, twice=first["twice"])
            for env in range(ENVS)
        ]  # fmt: skip

    def check_rows(self, stacked: bool) -> None:
        """Each key of each row."""
        for env, rows in enumerate(self.wanted):
            for at, row in enumerate(rows):
                for name, part in row.items():
                    if name in self.rows:
                        wanted = part[-1] if stacked and name == "observations" else part
                        same(self.rows[name][at, env], wanted, f"{name} of step {at} of {env}")
                    else:
                        assert name == "valid"
                        assert part

    def check_reported(self) -> None:
        """Returns and lengths of its episodes, in the order of their ends."""
        ends = [(at, env, total, length) for env, rows in enumerate(self.wanted)
                for at, total, length in episodes_of(rows)]  # fmt: skip
        assert self.reported == [(total, length) for _, _, total, length in sorted(ends)]

    def check_values(self, trained: artos.Trained) -> None:
        """Values of what was seen, and of the last observations of what was cut short."""
        actor: Any = trained._actor
        policy = actor.make_policy(actor.build_module(1), 1)
        versions = self.rows["policy_version"]
        for version in np.unique(versions):
            policy.bind(self.params[int(version)])
            for at in np.flatnonzero(versions == version):
                here = [rows[at] for rows in self.wanted]
                found = policy.values(_batch(here, here[0].following), ActInfo())
                np.testing.assert_allclose(self.rows["values"][at], found, rtol=1e-4, atol=1e-5)
                after = policy.values(_batch([row.following for row in here]), ActInfo())
                cut = np.array([row["truncations"] for row in here])
                kept = self.rows["bootstraps"][at]
                np.testing.assert_allclose(kept[cut], after[cut], rtol=1e-4, atol=1e-5)


def _batch(rows: list[Any], names: Any = None) -> dict[str, Array]:
    return {name: np.stack([row[name] for row in rows]) for name in names or rows[0]}


def check_run(run: Path, folder: Path, habits: Habits, actors: int = 2) -> None:
    """Everything that a run of ``told.py`` left in its folder, and in that of its tales."""
    stored = {a: Stored(habits, told(folder, f"actor-{a}")) for a in range(actors)}
    for actor in stored.values():
        actor.check_rows(habits.observed == "frames")
        actor.check_reported()
    trained = artos.load(run, trust=True)
    for actor in stored.values():
        if "values" in actor.rows and not trained.memory:
            actor.check_values(trained)
    for fact in told(folder, "learner"):
        _check_given(fact, stored)
    kept = Episodes.read(run / "episodes.csv")
    reported = [pair for actor in stored.values() for pair in actor.reported]
    assert sorted(zip(kept.returns, kept.lengths, strict=True)) == sorted(reported)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["mean_return_100"] == pytest.approx(np.mean(kept.returns[-100:]))


def _check_given(fact: dict[str, Any], stored: dict[int, Stored]) -> None:
    if "claims" in fact:
        for number, (actor, start) in enumerate(fact["claims"]):
            for name, array in fact["rows"].items():
                for step, values in enumerate(array[number]):
                    _check_one(stored[actor], name, start + step, values)
        return
    drawn = fact["drawn"]
    for at, (actor, step, env) in enumerate(drawn["index"].tolist()):
        rows = stored[actor].wanted[env][step:]
        assert rows[0]["valid"]
        where = f"of step {step} of environment {env} of actor {actor}"
        for name in drawn.keys() & rows[0].keys():
            same(drawn[name][at], rows[0][name], f"{name} {where}")
        # Fewer rewards are summed where later rows are not there yet.
        assert any(_leads(drawn, at, ahead) for ahead in _aheads(rows)), f"what follows {where}"


def _aheads(rows: list[Row]) -> Iterator[list[Row]]:
    """The rows whose rewards may be summed, the most first: so many, or to the episode's end."""
    ends = (at for at, row in enumerate(rows) if row["terminations"] or row["truncations"])
    for most in range(min(N_STEP, next(ends, N_STEP) + 1), 0, -1):
        yield rows[:most]


def _leads(drawn: dict[str, Array], at: int, rows: list[Row]) -> bool:
    """Whether returns, discount and what is said to follow are those of these rows."""
    last = rows[-1]
    returns = sum(GAMMA**i * float(row["rewards"]) for i, row in enumerate(rows))
    discount = 0.0 if last["terminations"] else GAMMA ** len(rows)
    found = drawn["n_step.returns"][at], drawn["n_step.discounts"][at]
    names = [name for name in drawn if name.startswith("next.")]
    return np.allclose(found, (returns, discount), atol=1e-4) and all(
        np.array_equal(drawn[n][at], last.following[n.removeprefix("next.")]) for n in names
    )


def _check_one(stored: Stored, name: str, step: int, values: Array) -> None:
    wanted = [rows[step].get(name) for rows in stored.wanted]
    if wanted[0] is None:
        wanted = stored.rows[name][step]
    same(values, np.array(wanted), f"{name} of step {step}, given to the learner")


def check_evaluation(run: Path, habits: Habits, env: str = "", *, greedy: bool = True) -> None:
    """``evaluate``, beside a plain loop of ``act`` in as many environments."""
    trained = artos.load(run, seed=7, trust=True)
    found = trained.evaluate(5, env=env, seed=7, greedy=greedy)
    check_episodes(trained, habits, found.returns, found.lengths, greedy=greedy)


def check_episodes(
    trained: artos.Trained, habits: Habits, returns: Sequence[float], lengths: Sequence[int],
    *, seed: int = 7, greedy: bool = True,
) -> None:  # fmt: skip
    """Episodes that were played, beside a plain loop."""
    waits = "NEXT" in habits.made
    by_hand = dict(_played(trained, habits, len(returns), seed, waits=waits, greedy=greedy))
    wanted = [by_hand[episode] for episode in range(len(returns))]
    assert list(zip(returns, lengths, strict=True)) == wanted


def check_evaluator(run: Path, habits: Habits) -> None:
    """The evaluator of a run, which plays its last version."""
    last = (run / "evaluations.csv").read_text().splitlines()
    facts = dict(zip(last[0].split(","), last[-1].split(","), strict=True))
    trained = artos.load(run, trust=True)
    waits = "NEXT" in habits.made
    by_hand = dict(_played(trained, habits, int(facts["episodes"]), SEED, waits=waits, greedy=True))
    wanted = [by_hand[episode][0] for episode in range(int(facts["episodes"]))]
    assert float(facts["mean_return"]) == pytest.approx(np.mean(wanted))


def _played(
    trained: artos.Trained, habits: Habits, episodes: int, seed: int, *, waits: bool, greedy: bool
) -> Iterator[tuple[int, tuple[float, int]]]:
    """Returns and lengths by the number of the episode."""
    loops = [Loop(habits, seed + env) for env in range(ENVS)]
    totals, played = [[0.0, 0] for _ in loops], [0] * ENVS
    state: dict[str, Any] | None = {} if trained.memory else None
    while min(played) * ENVS < episodes:
        obs = _stacked([_opened(loop.obs) for loop in loops])
        masks = None if loops[0].mask is None else np.stack([_open(loop.mask) for loop in loops])
        actions = trained.act(obs, greedy, state, masks)
        for env, (loop, total) in enumerate(zip(loops, totals, strict=True)):
            if loop.over:
                loop.reset()
                _forget(state, env)
                continue
            reward, ended, cut = loop.step(actions[env])
            total[0], total[1] = total[0] + reward, total[1] + 1
            if ended or cut:
                yield env + played[env] * ENVS, (total[0], int(total[1]))
                totals[env], played[env] = [0.0, 0], played[env] + 1
                if not waits:
                    loop.reset()
                    _forget(state, env)


def _forget(state: dict[str, Any] | None, env: int) -> None:
    for array in (state or {}).values():
        array[env] = 0


def _opened(obs: Any) -> Any:
    """With a mask that allows something, as nobody is asked where an episode is over."""
    if isinstance(obs, dict) and "action_mask" in obs:
        return {**obs, "action_mask": _open(obs["action_mask"])}
    return obs


def _open(mask: Array) -> Array:
    return mask if mask.any() else np.ones_like(mask)


def _stacked(obs: list[Any]) -> Any:
    if isinstance(obs[0], dict):
        return {name: _stacked([each[name] for each in obs]) for name in obs[0]}
    if isinstance(obs[0], tuple):
        return tuple(map(_stacked, map(list, zip(*obs, strict=True))))
    return np.stack(obs)
