"""What an actor or a learner lacks is refused by name, all of it before anything of it runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers import SUPPORT

from artos import Actor, Learner, RolloutActor
from artos.runtime.register import register
from artos.specs.contracts import broken, own
from artos.specs.reference import Reference


class Sound(Actor):
    def data_keys(self) -> Any: ...

    def setup(self, context: Any) -> None: ...

    def bind(self, params: Any, version: int) -> None: ...

    def sample(self, start: int, rows: int, call: Any) -> Any: ...


class SoundLearner(Learner):
    def setup(self, context: Any) -> None: ...

    def live(self) -> Any: ...

    def update(self, batch: Any, call: Any) -> Any: ...


def test_the_least_is_enough() -> None:
    assert [*broken(Sound(), Actor, ["sample"])] == []
    assert [*broken(SoundLearner(), Learner, ["update"])] == []
    assert [*broken(RolloutActor("CartPole-v1"), Actor, ["sample"])] == []


def test_methods_are_asked_for_where_a_trigger_fires_them() -> None:
    class Prepares(SoundLearner):
        weigh = SoundLearner.update
        update = Learner.update

    assert [*broken(Prepares(), Learner, ["weigh"])] == []
    assert [*broken(Prepares(), Learner, ["weigh", "update"])] == [
        "Prepares has no update(batch, call)"
    ]


def test_what_inherits_nothing_is_told_from_what() -> None:
    class Bare:
        def setup(self, context: Any) -> None: ...

    said = [*broken(Bare(), Actor, ["sample"])]
    assert said[0] == "Bare is no Actor: write `class Bare(Actor)`, with `from artos import Actor`"
    assert said[1:] == [
        "Bare has no sample(start, rows, call)", "Bare has no data_keys()",
        "Bare has no bind(params, version)",
    ]  # fmt: skip


def test_signatures_and_kinds() -> None:
    class Odd(Sound):
        seen = 3  # type: ignore[assignment]

        def version(self) -> int:  # type: ignore[override]
            return 0

        def bind(self, params: Any) -> None:  # type: ignore[override]
            ...

        def prepare(self, plan: Any) -> None:  # type: ignore[override]
            ...

        def sample(self, start: int, *more: Any) -> Any: ...

        def replay(self, start: int) -> Any: ...

    assert sorted(broken(Odd(), Actor, ["sample", "replay"])) == [
        "Odd.bind must take (params, version), but it takes (params)",
        "Odd.prepare must take (plan, environments), but it takes (plan)",
        "Odd.replay must take (start, rows, call), but it takes (start)",
        "Odd.seen must be a method",
        "Odd.version must be a value, not a method",
    ]


def test_own_is_what_the_base_does_not_have() -> None:
    actor = RolloutActor("CartPole-v1")
    assert own(actor, Actor, "env")
    assert own(actor, Actor, "spec")
    assert own(actor, Actor, "make_policy")
    assert not own(Sound(), Actor, "env")
    assert not own(Sound(), Actor, "make_policy")


BROKEN = """
from artos import Actor, Learner, Workload
from triggers import DataKeyTrigger, ObjectKeyTrigger

class Player(Actor):
    def setup(self, context): ...
    def bind(self, params, version): ...
    def sample(self, start): ...

class Gradient(Learner):
    def setup(self, context): ...
    def update(self, batch, call): ...

workload = Workload(
    name="broken", actor=Player(), learner=Gradient(),
    triggers={"learner.update": DataKeyTrigger(("x",), size=4),
              "actors.sample": ObjectKeyTrigger("model_param"), "actors.sync": ObjectKeyTrigger()},
)
"""


def test_all_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "my_broken_actor.py").write_text(BROKEN)
    reference = Reference(f"{tmp_path}/my_broken_actor.py:workload", {}, str(tmp_path))
    assert register(reference, 1).faults == (
        "Player has no data_keys()",
        "Player.sample must take (start, rows, call), but it takes (start)",
        "Gradient has no live()",
    )


def test_defaults_that_a_default_learner_has() -> None:
    learner = SoundLearner()
    assert learner.threads(None, 8) == 1
    assert learner.device_for("auto", None) == "cpu"
    assert [*learner.device_faults("cpu")] == []
    (said,) = learner.device_faults("cuda:0")
    assert "SoundLearner computes on the CPU only" in said
    with pytest.raises(NotImplementedError):
        Learner().update(None, None)  # type: ignore[arg-type]


MISNAMED = """
from dataclasses import replace
from artos import Changeable
from counting import Bookkeeper, workload as made

class Misnamed(Bookkeeper):
    changeable = (Changeable("shown"), Changeable("showm", ge=0))

def workload():
    return replace(made(), learner=Misnamed())
"""


def test_what_may_be_set_must_be_there_to_be_set(tmp_path: Path) -> None:
    shutil.copy(SUPPORT / "counting.py", tmp_path)
    (tmp_path / "my_misnamed_setting.py").write_text(MISNAMED)
    reference = Reference(f"{tmp_path}/my_misnamed_setting.py:workload", {}, str(tmp_path))
    assert register(reference, 1).faults == (
        "Misnamed.changeable names 'showm', which is no attribute of it: set it in __init__",
    )


TWICE = """
from dataclasses import replace
from artos import Changeable
from climbing import workload as made

def workload():
    found = made()
    found.actor.changeable = (Changeable("level"), Changeable("wind"))
    return found
"""


def test_what_an_environment_lets_be_set_is_called_otherwise_than_what_its_actor_does(
    tmp_path: Path,
) -> None:
    for name in ("counting.py", "climbing.py"):
        shutil.copy(SUPPORT / name, tmp_path)
    (tmp_path / "my_twice_settable.py").write_text(TWICE)
    reference = Reference(f"{tmp_path}/my_twice_settable.py:workload", {}, str(tmp_path))
    assert register(reference, 1).faults == (
        "Walker.changeable names 'level', as its environment does: call it something else",
    )
