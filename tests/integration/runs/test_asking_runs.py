"""Actors that ask: the same rows as those that act by themselves, also when members are killed."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from far_device import FAR, far_device
from helpers import ROOT, SUPPORT
from inline_runs import registered
from named import LEARNER, acting
from real_runs import TINY, Artos, Outcome, assert_each_row_once, checkpointed, shared_memory

from artos import AskingActor, Inference, ServerContext
from artos.errors import Refused
from artos.policies.flat import named_tensors
from artos.policies.recurrent import MEMORY, RecurrentActorCritic
from artos.policies.values import QNetwork
from artos.specs.members import Member

Start = Callable[..., Artos]
INFERENCE = Member("inference")
ONE_DEVICE = {"ARTOS_DEVICES": "cpu:0"}
SHORT = ("--total-steps", 1024, "--json")


@pytest.fixture
def asking(home: Path) -> Path:
    shutil.copy(SUPPORT / "asking.py", home)
    return home / "run"


def trained(run: Path) -> dict[str, Any]:
    return {name: each for name, each in checkpointed(run).items() if "book" not in name}


REPLAY = (
    "--set", "after=200", "--set", "batch=16", "--set", "ratio=2", "--set", "hidden=16", "--set",
    "envs=2", "--set", "sync=1",
)  # fmt: skip
CASES = {
    "ppo": ("ppo",),
    "recurrent": ("ppo", "--set", "recurrent=true"),
    "continuous, noise that lasts": ("ppo", "--env", "Pendulum-v1"),
    "a2c, scaled": ("a2c", "--set", "normalize=true"),
    "trpo": ("trpo",),
    "dqn, each actor exploring in its own way": (
        "dqn", *REPLAY, "--actors", 2, "--set", "spread=7", "--set", "explore=1",
    ),
    "dqn, masked": ("dqn", *REPLAY, "--env", "masked_env:in_info"),
    "r2d2": ("r2d2", "--actors", 1, *REPLAY, "--set", "length=4"),
    "sac": ("sac", *REPLAY),
    "sac, discrete and masked": ("sac", *REPLAY, "--env", "masked_env:in_observation"),
    "td3": ("td3", *REPLAY),
    "ddpg": ("ddpg", *REPLAY),
    "d4pg": ("d4pg", *REPLAY),
    "crossq": ("crossq", *REPLAY, "--set", "critic_hidden=16"),
}  # fmt: skip
LONG = ("a2c, scaled", "trpo", "dqn, masked", "sac", "td3", "ddpg", "d4pg", "crossq")


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.long] * (case in LONG)) for case in CASES]
)
def test_the_rows_are_those_of_an_actor_that_acts(
    case: str, artos: Callable[..., Outcome], home: Path
) -> None:
    """To the bit: what is learned of them is the same."""
    found = []
    shutil.copy(SUPPORT / "masked_env.py", home)
    name, *more = CASES[case]
    for inference in ("actor", "central"):
        run = home / inference
        asked = ("--set", f"inference={inference}", "--run-dir", run)
        outcome = artos("run", name, "--actors", 1, *more, "--inline", *SHORT, *asked)
        assert outcome.status == 0, outcome.err
        found.append(trained(run))
    own, central = found
    assert own.keys() == central.keys()
    for name, array in own.items():
        np.testing.assert_array_equal(array, central[name], name)


@pytest.mark.processes
@pytest.mark.parametrize("splits", [1, 2])
def test_rows_say_by_which_version_they_were_answered(
    splits: int, start: Start, asking: Path
) -> None:
    """While the learner goes on, so that a round is of several versions."""
    settings = "--set", f"splits={splits}", "--total-steps", 1280 * splits
    outcome = start("run", "asking.py:workload", "--run-dir", asking, *settings, "--json").wait()
    assert outcome.status == 0, outcome.err
    assert outcome.summary["updates"] == 40
    assert_each_row_once(asking, 1280)


FIXED = """
from dataclasses import replace

from asking import Asker, Bookkeeper, counting

from artos import Inference


class Fixed(Inference):
    reads_weights = False


class Books(Bookkeeper):
    def update(self, batch, call):
        assert (batch.gather("log_probs") == -1).all()
        lag = self.params[0] - batch.gather("policy_version")
        assert ((0 <= lag) & (lag <= 1)).all()
        self.params += 1
        return super().update(batch, call)


def workload():
    base = counting(2, 1280)
    actor = Asker("counting:make", envs=2, splits=2, server=Fixed())
    return replace(base, actor=actor, learner=Books(), name="fixed")
"""


def test_who_answers_may_be_without_weights(
    artos: Callable[..., Outcome], home: Path, asking: Path
) -> None:
    """Such as a fixed policy: rows are of the versions by which their rounds began."""
    (home / "fixed.py").write_text(FIXED)
    outcome = artos("run", "fixed.py:workload", "--inline", "--run-dir", asking, "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.summary["updates"] >= 8


@pytest.mark.long
@pytest.mark.processes
def test_servers_and_those_who_ask_are_killed(start: Start, home: Path, asking: Path) -> None:
    """No row is lost, made twice, or answered by what another one asked."""
    slow, chance = home / "slow", random.Random(5)
    slow.touch()
    artos = start("run", "asking.py:workload", "--run-dir", asking, "--total-steps", 6400, "--json")
    artos.until(lambda: artos.member(INFERENCE) and artos.member(LEARNER))
    kills = 0
    for turn in range(8):
        victim = (INFERENCE, *acting(0, 1), LEARNER)[turn % 4 if turn % 2 else 0]
        time.sleep(chance.uniform(0.0, 0.5))
        if process := artos.member(victim):
            process.kill()
            kills += 1
    slow.unlink()
    outcome = artos.wait()
    assert outcome.status == 0, outcome.err
    assert outcome.summary["restarts"] == kills
    assert outcome.summary["rows_lost"] == 0
    assert_each_row_once(asking, 6400)
    assert not artos.survivors()
    assert not shared_memory()


@pytest.mark.processes
def test_the_judge_of_the_example_pays(start: Start, home: Path) -> None:
    """Here, for two actors at once; rewards are its scores of what their rows show."""
    shutil.copy(ROOT / "docs" / "examples" / "my_judge.py", home)
    (home / "looked.py").write_text(LOOKED)
    outcome = start("run", "looked.py:workload", "--run-dir", home / "run", *SHORT).wait()
    assert outcome.status == 0, outcome.err
    assert outcome.summary["updates"] == 1
    assert 0 < outcome.summary["progress"]["metrics/paid"] < 1


LOOKED = """
from dataclasses import replace

import numpy as np
from my_judge import PPO, Judge
from my_judge import workload as judged


class Looking(PPO):
    def update(self, batch, call):
        judge = Judge()
        judge.setup(None)
        seen, paid = batch.gather("observations"), batch.gather("rewards")
        own = judge.answer({"seen": seen.reshape(-1, 4)})["score"]
        np.testing.assert_allclose(paid.reshape(-1), own, rtol=1e-6)
        return {**super().update(batch, call), "paid": float(paid.mean())}


def workload(total_steps: int = 1024):
    return replace(judged(total_steps=total_steps), learner=Looking())
"""


@pytest.mark.processes
@pytest.mark.parametrize("where", [("--inline",), ()])
def test_a_server_has_the_weights_of_the_learner_that_it_names(
    where: tuple[str, ...], artos: Callable[..., Outcome], home: Path
) -> None:
    """Which are not those that actors act with; an answer says which version they were."""
    shutil.copy(SUPPORT / "graded.py", home)
    run = "--run-dir", home / "run", "--total-steps", 640, "--json"
    outcome = artos("run", "graded.py:workload", *where, *run)
    assert outcome.status == 0, outcome.err
    assert outcome.summary["steps"] == 640


def test_a_server_evaluates_on_a_device() -> None:
    """One that is as strict about the host as a GPU; answers are as on the CPU."""
    answers = []
    for device in ("cpu", FAR):
        with far_device() if device == FAR else nullcontext():
            actor = AskingActor("Pendulum-v1", partial(RecurrentActorCritic, width=8), 4)
            server = Inference()
            module = actor.build_module(3)
            tensors = named_tensors(module).values()
            params = np.concatenate([each.detach().numpy().ravel() for each in tensors])
            server.setup(ServerContext("inference", actor, 3, device))
            server.bind(params, 0)
            rows = np.random.default_rng(2)
            asked = {
                key.name: rows.normal(size=(6, *key.shape)).astype(key.dtype)
                for key in server.asks(actor)
            }
            answers.append(server.answer(asked))
    here, there = answers
    assert here.keys() == there.keys() == {"out", "values", "log_std", MEMORY}
    for name, array in here.items():
        np.testing.assert_allclose(array, there[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.processes
def test_a_server_leases_its_device_beside_the_learner(start: Start, home: Path) -> None:
    """Both take turns on the one device that there is."""
    central = "--set", "inference=central", "--set", "answer_device=pool", "--device", "pool"
    run = start("run", "ppo", *central, *TINY, *SHORT, "--run-dir", home / "run", **ONE_DEVICE)
    outcome = run.wait()
    assert outcome.status == 0, outcome.err
    assert outcome.summary["steps"] == 1024
    assert outcome.summary["restarts"] == 0


CENTRAL = {"inference": "central"}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "parts that do not divide": ({"splits": "3"}, "splits=3 does not divide envs=4.*splits to 2"),
    "no part": ({"splits": "0"}, "splits must be at least 1, not 0"),
    "more than can come": (
        {"answer_batch": "5", "answer_wait": "0.1", "splits": "2"},
        r"waits for n=5 requests, but there are never more than 4 \(2 actors, 2 at once",
    ),
    "for as long as it takes": ({"answer_batch": "2"}, "waits for n=2 requests however long"),
    "no batch": ({"answer_batch": "0"}, "batch must be a whole number of at least 1, not 0"),
    "a wait that is none": ({"answer_wait": "nan"}, "answer_wait='nan'.*write a number"),
    "another device": ({"answer_device": "tpu"}, "unknown device 'tpu'"),
    "another word": ({"inference": "server"}, "write one of actor, central"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_answered_is_refused(case: str, tmp_path: Path) -> None:
    settings, why = REFUSED[case]
    with pytest.raises(Refused, match=why):
        registered("ppo", tmp_path, **{**CENTRAL, **settings})


CANNOT = {
    "es": "central inference is for algorithms such as ppo",
    "rainbow": "Rainbow explores by noise in its network.*set inference=actor",
    "apex": "actors of Ape-X rate rows by networks of their own: set inference=actor",
}


@pytest.mark.parametrize("name", CANNOT)
def test_algorithms_that_cannot_say_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=CANNOT[name]):
        registered(name, tmp_path, **CENTRAL)


def test_a_policy_that_acts_otherwise_than_it_draws_is_refused() -> None:
    """Its own ``act`` would be passed over by a server, which asks what it inherits."""

    class Own(QNetwork):
        def act(self, obs: Any, info: Any) -> Any:
            return super().act(obs, info)

    class Drawing(Own):
        def draw(self, answer: Any, info: Any) -> Any:
            return super().draw(answer, info)

    (fault,) = Inference().faults(AskingActor("CartPole-v1", Own))
    assert "Own chooses its actions where its network is evaluated" in fault
    for policy in (QNetwork, Drawing):
        assert not [*Inference().faults(AskingActor("CartPole-v1", policy))]


def test_a_policy_whose_answers_lack_its_values_is_refused() -> None:
    """Episodes that go on are bootstrapped by them."""

    class Rated(QNetwork):
        outputs = ("values",)

        def draw(self, answer: Any, info: Any) -> Any:
            found = super().draw(answer, info)
            return found | {"values": answer["out"].max(1).values}

    class Saying(Rated):
        def answer(self, obs: Any, info: Any) -> Any:
            found = super().answer(obs, info)
            return found | {"values": found["out"].max(1).values}

    (fault,) = Inference().faults(AskingActor("CartPole-v1", Rated))
    assert "Rated has values among its outputs" in fault
    assert not [*Inference().faults(AskingActor("CartPole-v1", Saying))]


SERVERS = {
    "no name": ("'a judge'", "Judge()", "cannot have this name"),
    "a name that is taken": ("'learner'", "Judge()", "cannot have this name"),
    "a log's name": ("'actor-1'", "Judge()", "logs call something else so"),
    "an actor": ("'actor'", "Judge()", "logs call something else so"),
    "not one": ("'judge'", "Judge", "is a type: derive it from artos.Server"),
    "lacks half": ("'judge'", "Server()", "Server has no asks, answers, answer"),
    "of nobody": ("'judge'", "Judge(of='critic')", "of='critic': there is no such learner"),
    "on a device": ("'judge'", "Judge(device='cuda:0')", "Judge computes on the CPU"),
    "no thread": ("'judge'", "Judge(threads=0)", "threads must be at least 1"),
    "for ever": ("'judge'", "Judge(wait=float('inf'))", "wait must be a number of seconds"),
    "of objects": ("'judge'", "Judge(kind='O')", "cannot be stored in shared memory"),
    "acts by itself": ("'inference'", "Inference()", "Walker acts by itself"),
}


@pytest.mark.parametrize("case", SERVERS)
def test_servers_that_are_none_are_refused(case: str, home: Path) -> None:
    name, server, why = SERVERS[case]
    file = home / f"judged_{case.replace(' ', '_')}.py"
    file.write_text(JUDGE + f"workload = replace(counting(), servers={{{name}: {server}}})\n")
    with pytest.raises(Refused, match=why):
        registered(f"{file}:workload", home)


JUDGE = """
from dataclasses import replace

from counting import workload as counting

from artos import DataKey, Inference, Server


class Judge(Server):
    def __init__(self, kind="float32", **named):
        self.kind = kind
        vars(self).update(named, reads_weights="of" in named)

    def asks(self, actor):
        return [DataKey("x", (), self.kind)]

    def answers(self, actor):
        return [DataKey("y")]

    def answer(self, asked):
        return {"y": asked["x"]}


"""


@pytest.mark.long
@pytest.mark.processes
def test_a_run_ends_with_the_word_of_a_server_that_fails(start: Start, home: Path) -> None:
    shutil.copy(ROOT / "docs" / "examples" / "my_judge.py", home)
    (home / "failing.py").write_text(FAILING)
    outcome = start("run", "failing.py:workload", *SHORT).wait()
    assert outcome.status == 1, outcome.err
    assert re.search(r"judge failed .*\n(.*\n)*.*of no opinion", outcome.err), outcome.err


FAILING = """
from dataclasses import replace

from my_judge import Judge
from my_judge import workload as judged


class Failing(Judge):
    def answer(self, asked):
        raise ValueError("of no opinion")


def workload(total_steps: int = 1024):
    return replace(judged(total_steps=total_steps), servers={"judge": Failing()})
"""
