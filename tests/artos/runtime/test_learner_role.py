"""What a learner's role reports of a user's learner: the rows it learned from, and its seconds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from artos import Actor, Learner, UniformSampler, Wrote
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.model_block import ModelBlock, ObjectSpec
from artos.errors import BadRow
from artos.learners.publisher import Publisher
from artos.protocol.invocations import ActorLag, Claim, Done, Invoke, encode
from artos.runtime import member
from artos.runtime.device_meter import DeviceMeter
from artos.runtime.member import LearnerRole
from artos.specs.configuration import Changeable
from artos.specs.keys import VERSION_KEY, ArraySpec, DataKey, ObjectKey

CLAIM = Claim(0, 4, 8)


class Toy(Learner):
    """The least that a role asks of a learner; ``act`` is what an update does."""

    def __init__(self) -> None:
        self.weights = np.zeros(1, np.float32)
        self.act: Callable[[Any], object] = lambda batch: None
        self.told: dict[str, float] = {}

    def update(self, batch: Any, call: Invoke) -> Any:
        self.fresh = True
        return self.act(batch)

    def live(self) -> dict[str, Any]:
        return {"params": self.weights}

    def seconds(self) -> dict[str, float]:
        return self.told


@contextmanager
def a_block(folder: Path) -> Iterator[ActorBlock]:
    """Eight rows of two environments, the last four of version 1."""
    spec = BlockSpec(0, (DataKey("rewards"),), 8, 2, (), "overwrite")
    block = ActorBlock.create(folder / "actor-0", spec)
    block.allocate(8)
    block.arrays["rewards"][:] = 1.0
    block.arrays[VERSION_KEY][:] = [0, 0, 0, 0, 1, 1, 1, 1]
    block.commit(8)
    yield block


class Stage:
    """A role at version 3, with its learner, on a block of eight rows."""

    def __init__(self, block: ActorBlock, folder: Path) -> None:
        spec = ObjectSpec.sized("model_param", [ArraySpec("params", (1,))], 1)
        self.model = ModelBlock.create(folder / "model", [spec])
        self.blocks, self.learner = {0: block}, Toy()
        self.role = LearnerRole(self.learner, self.model["model_param"], self.blocks)
        for _ in range(3):
            self.update()

    def update(self, *claims: Claim) -> Done:
        return self.role.run(Invoke(1, "learner.update", "update", claims))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with a_block(tmp_path) as block:
        yield Stage(block, tmp_path)


def test_what_samplers_drew_is_told_with_its_lag(stage: Stage) -> None:
    sampler = UniformSampler(stage.blocks, ("rewards",), 10, seed=1)
    ages: list[int] = []

    def draw(batch: Any) -> None:
        for _ in range(2):
            ages.extend(3 - sampler.sample()[VERSION_KEY])

    stage.learner.act = draw
    done = stage.update()
    assert done.drawn == (ActorLag(0, 20, sum(ages), 3, (0, 0, 20)),)
    stage.learner.act = lambda batch: None
    assert stage.update().drawn == ()


def test_an_update_that_does_not_end_published_nothing(stage: Stage, tmp_path: Path) -> None:
    """Its process is killed, or user code raises: it is repeated, and publishes once."""
    value = ObjectSpec.sized("seen", [ArraySpec("value", (), "int64")], 1)
    objects = ModelBlock.create(tmp_path / "objects", [value]).objects
    model = stage.model["model_param"]
    for after in (lambda: 1 / 0, lambda: None):
        publish = Publisher([ObjectKey("seen", (), "int64")], objects, model)
        role = LearnerRole(stage.learner, model, stage.blocks, publisher=publish)
        seen = SimpleNamespace(publish=publish, after=after)
        stage.learner.act = lambda _, it=seen: (it.publish("seen", 1), it.after())[1]  # type: ignore[misc]
        with suppress(ZeroDivisionError):
            role.run(Invoke(1, "learner.update", "update"))
    assert (objects["seen"].version, model.version) == (0, 4)


def test_what_is_free_is_looked_at_from_begin_to_end_of_an_update(stage: Stage) -> None:
    asked: list[str] = []
    cores: Any = SimpleNamespace(
        begin=lambda: asked.append("begin"), look=lambda: asked.append("look")
    )
    model = stage.model["model_param"]
    role = LearnerRole(stage.learner, model, stage.blocks, cores=cores)
    stage.learner.act = lambda batch: asked.append("update")
    role.run(Invoke(1, "learner.update", "update"))
    assert asked == ["begin", "update", "look"]


def test_metrics_are_plain_numbers_whatever_a_learner_has_computed_them_with(stage: Stage) -> None:
    stage.learner.act = lambda batch: {"loss": np.float64(0.5), "rows": np.int32(4)}
    done = stage.update()
    assert done.metrics == {"loss": 0.5, "rows": 4.0}
    assert {type(value) for value in done.metrics.values()} == {float}
    encode(done)


def test_what_was_set_is_changed_once_before_the_invocation_and_again_in_another_process(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, float]] = []
    monkeypatch.setattr(Toy, "changeable", (Changeable("lr"), Changeable("rows", kind="int")))
    monkeypatch.setattr(Toy, "change", lambda self, name, value: told.append((name, value)))
    stage.learner.act = lambda batch: told.append(("update", 0.0))
    first = Invoke(1, "learner.update", "update", settings={"lr": 0.5})
    second = Invoke(2, "learner.update", "update", settings={"lr": 0.5, "rows": 3.0})
    for call in (first, first, second):
        stage.role.run(call)
    update = ("update", 0.0)
    assert told == [("lr", 0.5), update, update, ("rows", 3), update]
    assert isinstance(told[3][1], int)
    told.clear()
    LearnerRole(stage.learner, stage.model["model_param"], stage.blocks).run(second)
    assert sorted(told[:2]) == [("lr", 0.5), ("rows", 3)]


class Meter(DeviceMeter):
    """Finds a quarter of each update idle."""

    def updated(self, seconds: float) -> float:
        return seconds / 4


def test_what_the_driver_saw_idle_is_told_with_the_update(stage: Stage) -> None:
    meter = Meter(lambda since: [])
    role = LearnerRole(stage.learner, stage.model["model_param"], stage.blocks, {}, meter)
    done = role.run(Invoke(1, "learner.update", "update"))
    assert done.device_idle == done.seconds / 4 > 0.0


def test_where_no_row_can_be_drawn_the_learner_does_nothing_and_says_why(
    stage: Stage, tmp_path: Path
) -> None:
    sampler = UniformSampler(stage.blocks, ("rewards",), 10, seed=1, max_lag=1)
    role = LearnerRole(stage.learner, stage.model["model_param"], stage.blocks, {"replay": sampler})
    call = Invoke(7, "replay", "update")
    stage.learner.act = lambda batch: pytest.fail("there is no batch")
    done = role.run(call)
    assert (done.firing, done.version, done.drawn, done.stale) == (7, 3, (), 16)
    assert done.nothing == (
        "none of 16 rows can be sampled: max_lag leaves out 16 of them, raise it"
    )
    stage.blocks[0].allocate(2)
    stage.blocks[0].arrays[VERSION_KEY][:2] = [1, 2]
    stage.blocks[0].commit(10)
    stage.learner.act = lambda batch: None
    done = role.run(call)
    assert (done.version, done.nothing) == (4, "")
    assert [lag.largest for lag in done.drawn] == [1]
    assert done.stale == 2, "each row counts when it is left out for the first time"


@pytest.mark.parametrize(
    ("reads", "draws", "unread"),
    [(True, False, False), (False, False, False), (True, True, False), (False, True, True)],
)
def test_rows_handed_over_count_unless_others_were_drawn_instead(
    stage: Stage, reads: bool, draws: bool, unread: bool
) -> None:
    sampler = UniformSampler(stage.blocks, ("rewards",), 10, seed=1)

    def act(batch: Any) -> None:
        if reads:
            batch.gather("rewards")
        if draws:
            sampler.sample()

    stage.learner.act = act
    done = stage.update(CLAIM)
    assert (bool(done.drawn), done.unread) == (draws, unread)


# -- seconds ---------------------------------------------------------------------------------------


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks at the clock a second passes."""
    ticks = itertools.count(100.0)
    monkeypatch.setattr(member.time, "perf_counter", lambda: next(ticks))


@pytest.mark.parametrize(
    ("told", "learn"), [({}, 1.0), ({"gather": 0.25}, 0.75), ({"learn": 0.5}, 1.0)]
)
def test_every_second_of_an_update_is_accounted_for(
    stage: Stage, ticking: None, told: dict[str, float], learn: float
) -> None:
    """What a user's learner does not tell counts as learning; publishing comes on top."""
    stage.learner.told = told
    times = stage.update().times
    assert times == {**told, "learn": learn, "publish": 1.0}


@contextmanager
def a_role(
    tmp_path: Path, actor: Actor, *, short_rounds: bool = False
) -> Iterator[member.ActorRole]:
    spec = ObjectSpec.sized("model_param", [ArraySpec("params", (1,))], 1)
    model = ModelBlock.create(tmp_path / "model", [spec])["model_param"]
    model.commit(model.allocate(), 0)
    with a_block(tmp_path) as block:
        plan = SimpleNamespace(deadline=1.0, steps=4, short_rounds=short_rounds)
        context = SimpleNamespace(block=block, actor=0, plan=plan)
        yield member.ActorRole(actor, context, model)  # type: ignore[arg-type]


@pytest.mark.parametrize(("writes", "lacking"), [(0, "4 of 4"), (3, "1 of 4")])
def test_rows_that_an_actor_did_not_write_are_no_rows(
    writes: int, lacking: str, tmp_path: Path
) -> None:
    """What was in that memory before would be learned from."""
    with a_role(tmp_path, Stamping(writes)) as role:
        written = role.step()
        with pytest.raises(BadRow, match=f"{lacking} rows were not written: sample"):
            role.run(Invoke(1, "actors.sample", "sample", (), written + 4))
        assert role.step() == written, "nothing is committed"


@pytest.mark.parametrize("told", [None, Wrote(4), Wrote(4, None)])  # type: ignore[arg-type]
def test_an_actor_need_not_tell_of_its_seconds(told: Any, tmp_path: Path) -> None:
    """All of them count as those of sampling, as with a learner that returns no metrics."""
    actor = Stamping()
    actor.told = told
    with a_role(tmp_path, actor) as role:
        done = role.run(Invoke(1, "actors.sample", "sample", (), 12))
    assert done.times["sample"] == done.seconds


def test_a_round_may_end_early_where_whole_episodes_are_handed_over(tmp_path: Path) -> None:
    with a_role(tmp_path, Stamping(3, Wrote(3, {"environment": 0.25})), short_rounds=True) as role:
        done = role.run(Invoke(1, "actors.sample", "sample", (), 12))
        assert role.step() == 11
        assert done.times["environment"] == 0.25
        # Sent again, as if its process had been killed before it answered: the round is over.
        role.run(Invoke(1, "actors.sample", "sample", (), 12))
        assert role.step() == 11
        role.run(Invoke(2, "actors.sample", "sample", (), 15))
        assert role.step() == 14


@pytest.mark.parametrize(("rows", "short_rounds"), [(3, False), (0, True), (5, True)])
def test_a_round_has_a_row_and_not_too_many(rows: int, short_rounds: bool, tmp_path: Path) -> None:
    with a_role(tmp_path, Stamping(4, Wrote(rows)), short_rounds=short_rounds) as role:
        with pytest.raises(BadRow, match=rf"wrote {rows} of 4 rows.*DataKeyTrigger\(KEYS, sample"):
            role.run(Invoke(1, "actors.sample", "sample", (), 12))
        assert role.step() == 8, "nothing is committed"


def test_an_early_end_does_not_hide_rows_that_were_not_written(tmp_path: Path) -> None:
    early = Stamping(2, Wrote(3))
    with (
        a_role(tmp_path, early, short_rounds=True) as role,
        pytest.raises(BadRow, match="1 of 3 rows were not written"),
    ):
        role.run(Invoke(1, "actors.sample", "sample", (), 12))


def test_what_an_actor_waits_for_room_is_no_work(tmp_path: Path, ticking: None) -> None:
    with a_role(tmp_path, Stamping()) as role:
        done = role.run(Invoke(1, "actors.sample", "sample", (), 12))
    assert done.times == {"wait_for_room": 1.0, "bind": 1.0, "environment": 0.25, "sample": 0.75}
    assert done.seconds == 1.0


class Stamping(Actor):
    """The least that a role asks of an actor."""

    version = 0

    def __init__(self, writes: int = 1 << 30, told: Wrote | None = None) -> None:
        self.writes, self.told = writes, told or {"environment": 0.25}

    def setup(self, context: Any) -> None:
        self.block = context.block

    def bind(self, params: Any, version: int) -> None: ...

    def sample(self, start: int, rows: int, call: Any) -> Any:
        for name, value in ((VERSION_KEY, self.version), ("rewards", 1.0)):
            for view in self.block.views(name, start, start + min(rows, self.writes)):
                view[...] = value
        return self.told
