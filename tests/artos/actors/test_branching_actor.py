"""The environments of a group continue one state, and another one once enough of them get there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from artos.actors.branches import BranchingActor
from artos.actors.context import ActorContext
from artos.actors.rollout import RolloutActor
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.shm_folder import ShmFolder
from artos.errors import Refused
from artos.policies.recurrent import RecurrentActorCritic
from artos.protocol.invocations import Invoke
from artos.runtime.register import register
from artos.specs.reference import Reference
from artos.system.snapshot import pickled, put_back, taken_whole, unpickled

DOWN, UP, WAIT = range(3)
GROUP, ROWS = 4, 2


class Told:
    """Acts as it is told."""

    kept = ("told",)
    told: tuple[int, ...] = ()

    def bind(self, flat: Any) -> None:
        """There is nothing to bind."""

    def act(self, obs: Any, info: Any) -> Any:
        zeros = np.zeros(2 * GROUP, np.float32)
        return {"actions": np.array(self.told * 2), "log_probs": zeros, "values": zeros}

    def values(self, obs: Any, info: Any) -> Any:
        return np.zeros(2 * GROUP, np.float32)


class Led(BranchingActor):
    """Does what it is told, the same in both of its groups."""

    def make_policy(self, module: Any, seed: int) -> Any:
        return Told()

    def round(self, *told: int) -> list[int]:
        """A round in which each does that at every step; where they stand then."""
        self._policy.told = told  # type: ignore[attr-defined]
        self.branch(0, ROWS, Invoke(1, "actors.branch", "branch"))
        found = heights(self)
        assert found[:GROUP] == found[GROUP:]
        return found[:GROUP]


@pytest.fixture
def actor() -> Iterator[Led]:
    with led("stairs") as actor:
        yield actor


@contextmanager
def led(env: str, seed: int = 0) -> Iterator[Led]:
    actor = Led(f"stairs_env:{env}", groups=2, group=GROUP, often=0.5, patience=3)
    keys = tuple(actor.data_keys())
    shm = ShmFolder.create("branching")
    try:
        spec = BlockSpec(0, keys, ROWS, 2 * GROUP, (), "wait")
        plan: Any = SimpleNamespace(seed=0, actors=1, objects=())
        actor.setup(ActorContext(plan, 0, 0, ActorBlock.create(shm.path / "block", spec), seed))
        actor.bind(np.zeros(1, np.float32), 0)
        yield actor
        actor.close()
    finally:
        shm.remove()


def test_all_but_the_first_go_on_from_the_best_once_enough_got_further(actor: Led) -> None:
    assert actor.round(WAIT, UP, UP, WAIT) == [0, 2, 2, 0]
    assert actor.round(WAIT, WAIT, WAIT, WAIT) == [0, 2, 2, 2]
    assert actor.round(WAIT, DOWN, DOWN, UP) == [0, 2, 2, 4], "an end is a return to that state"
    # One of five attempts is not enough; it goes on where it is.
    assert actor.round(WAIT, WAIT, WAIT, WAIT) == [0, 2, 2, 4]
    assert actor.round(UP, UP, WAIT, WAIT) == [2, 6, 4, 4], "now it was one of one"


def test_what_nobody_gets_beyond_is_given_up(actor: Led) -> None:
    actor.round(WAIT, UP, UP, UP)
    for _ in range(3):
        assert actor.round(WAIT, DOWN, DOWN, DOWN) == [0, 2, 2, 2]
    assert actor.round(WAIT, DOWN, DOWN, DOWN) == [0, 0, 0, 0]


def test_beyond_the_end_is_the_beginning(actor: Led) -> None:
    for height in (2, 4, 6, 8):
        assert actor.round(WAIT, UP, UP, UP) == [0, height, height, height]
    assert actor.round(WAIT, UP, WAIT, WAIT)[1] >= 8, "the ninth step is the end"
    assert actor.round(WAIT, UP, UP, UP) == [0, 2, 2, 2]


def test_only_whole_episodes_are_reported(actor: Led) -> None:
    actor.round(UP, UP, UP, UP)
    actor.round(DOWN, DOWN, DOWN, DOWN)
    assert actor.episodes() == ((2.0, 2.0, 0.0, 0.0), (3, 3, 1, 1))


def test_it_goes_on_from_a_snapshot(actor: Led) -> None:
    actor.round(WAIT, UP, UP, UP)
    saved = pickled(taken_whole(actor))
    expected = [actor.round(WAIT, DOWN, UP, WAIT), actor.round(UP, DOWN, DOWN, DOWN)]
    actor.round(UP, UP, UP, UP)
    put_back(actor, unpickled(saved))
    assert [actor.round(WAIT, DOWN, UP, WAIT), actor.round(UP, DOWN, DOWN, DOWN)] == expected


def test_another_process_goes_on_from_the_same_beginnings() -> None:
    with led("landings") as before, led("landings", seed=1) as after:
        begun = heights(before)
        assert heights(after) != begun
        put_back(after, unpickled(pickled(taken_whole(before))))
        after._go_on(range(2 * GROUP), after._groups[0])
        assert heights(after) == begun


def heights(actor: Led) -> list[int]:
    return [int(actor.present(env)[0]["observations"][0]) for env in range(2 * GROUP)]


@pytest.mark.parametrize(
    ("env", "policy", "words"),
    [
        ("stacked", None, "observations are stacks of 2 frames"),
        ("stairs", RecurrentActorCritic, "the policy is recurrent"),
    ],
)
def test_what_rows_of_another_episode_would_be_part_of(env: str, policy: Any, words: str) -> None:
    RolloutActor(f"stairs_env:{env}", policy).data_keys()
    with pytest.raises(Refused, match=words):
        BranchingActor(f"stairs_env:{env}", policy).data_keys()


TABLE = """
from artos import PPO, BranchingActor, Episodes, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger, RoundTrigger

KEYS = ("observations", "actions", "rewards", "terminations", "truncations")


def table(fires: str, size: int = 0) -> Workload:
    claim = dict(size=size) if size else dict(sample=Episodes(4))
    return Workload(
        name="stairs", actors=1, steps=8, total_steps=100, learner=PPO(),
        actor=BranchingActor("stairs_env:stairs"),
        triggers={
            "learner.update": DataKeyTrigger((*KEYS, "log_probs", "values", "bootstraps"), **claim),
            f"actors.{fires}": ObjectKeyTrigger("model_param") if size else RoundTrigger(),
        },
    )
"""


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "leave out Episodes"), (16, "size=16 rows are of several rounds"), (6, "set size=8"),
     (4, ""), (8, "")],
)  # fmt: skip
def test_what_is_handed_over_across_rounds(size: int, words: str, tmp_path: Path) -> None:
    (tmp_path / "claims.py").write_text(TABLE)

    def faults(fires: str) -> str:
        settings = {"fires": fires, "size": size}
        found = register(Reference(f"{tmp_path}/claims.py:table", settings, str(tmp_path)), 0)
        return "\n".join(fault for fault in found.faults if "in another episode" in fault)

    assert words in faults("branch")
    assert bool(words) == bool(faults("branch"))
    assert not faults("sample"), "between two rounds nothing jumps then"


def test_all_that_is_wrong_is_said_at_once() -> None:
    actor = BranchingActor(
        "stairs_env:uncloned", groups=2, group=1, often=0.0, patience=0, final_observations=True
    )
    with pytest.raises(Refused) as refused:
        actor.data_keys()
    text = "\n".join(refused.value.faults)
    for part in ("groups of 2 or more", "often=0.0", "patience=0", "from replay", "clone_state()"):
        assert part in text
    with pytest.raises(Refused, match="vector environment"):
        BranchingActor("vector:CartPole-v1").data_keys()
