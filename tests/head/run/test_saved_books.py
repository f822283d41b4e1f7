"""A run that goes on with another one's books has all of them, and nothing of its processes."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import BuiltinMethodType, MethodType
from typing import Any

import msgspec
import numpy as np
import pytest
from elastic_loop import STEPS, Troupe, full_batch, troupe
from test_evaluations import WithEvaluator

from artos.buffer.actor_block import ActorBlock
from artos.buffer.object_region import ObjectRegion
from artos.clock import Clock
from artos.errors import CheckpointFault
from artos.runs.plan import Plan
from artos.specs.actor_count import Schedule
from artos.specs.keys import EVALUATION
from artos.system.snapshot import NotKept
from deploy.local.inline import Inline
from head.run.concerns.lag import Lag
from head.run.coordination.outline import Outline
from head.run.coordination.ports import Ports
from head.run.saved_books import NOT_KEPT, kept, parts, resumed, saved
from triggers import ObjectKeyTrigger, UpdateTrigger
from triggers.journal import Journal, read
from triggers.table import Table

LONG_AGO = 123_456.0
"""When the first run happens, by its clock; that of the second one begins at 0."""
GIVEN = (Plan, Outline, Ports, ActorBlock, ObjectRegion, Clock, Journal, Troupe)
SINGLE = (str, bytes, bool, int, float, type(None), range, set, frozenset, msgspec.Struct)


def table() -> Table:
    paced = {"actors.sync": ObjectKeyTrigger("model_param", every=2), EVALUATION: UpdateTrigger(2)}
    return full_batch(max_lag=1) | paced


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def make(stage: ExitStack, folder: Path, updates: int) -> WithEvaluator:
    folder.mkdir()
    scaling = Schedule({0: 2, 3: 3, 5: 2, 20: 3})
    made = troupe(
        scaling, table(), 0, folder, updates=updates, park="checkpoint", kind=WithEvaluator
    )
    run = stage.enter_context(made)
    assert isinstance(run, WithEvaluator)
    return run


@pytest.fixture
def first(stage: ExitStack, tmp_path: Path) -> WithEvaluator:
    """A run that had ended, with firings withheld, a version that plays and one that waits."""
    run = make(stage, tmp_path / "first", updates=9)
    run.clock.advance(LONG_AGO)
    run.begin()
    run.clock.advance(1.0)
    run.run(updates=8)
    run.prompt = False
    run.kill(1)
    run.run(updates=9)
    for _ in range(20):
        run.coordinator.tick()
        if any(queue and run._can(member) for member, queue in run._queues.items()):
            run.step()
    assert run.coordinator.withheld
    return run


@pytest.fixture
def second(stage: ExitStack, tmp_path: Path) -> WithEvaluator:
    return make(stage, tmp_path / "second", updates=50)


def differences(one: Any, other: Any, at: str, seen: dict[int, Any]) -> Iterator[str]:
    """Where two values are not alike, whatever they are made of."""
    if isinstance(one, GIVEN) or id(one) in seen:
        return
    seen[id(one)] = one  # held, so that nothing else gets its id
    if type(one) is not type(other):
        yield f"{at}: {one!r} is now {other!r}"
    elif isinstance(one, SINGLE):
        if one != other and not at.endswith("['sent']"):
            yield f"{at}: {one!r} is now {other!r}"
    elif isinstance(one, np.ndarray):
        if not np.array_equal(one, other):
            yield f"{at}: {one!r} is now {other!r}"
    elif isinstance(one, random.Random):
        if one.getstate() != other.getstate():
            yield f"{at}: another stream"
    elif isinstance(one, Mapping):
        if list(one) != list(other):
            yield f"{at}: {list(one)} is now {list(other)}"
        for key in one.keys() & other.keys():
            yield from differences(one[key], other[key], f"{at}[{key!r}]", seen)
    elif isinstance(one, Sequence | deque):
        if len(one) != len(other):
            yield f"{at}: {len(one)} is now {len(other)}"
        for place, pair in enumerate(zip(one, other, strict=False)):
            yield from differences(*pair, f"{at}[{place}]", seen)
    elif isinstance(one, MethodType | BuiltinMethodType):
        yield from differences(one.__self__, other.__self__, f"{at}.__self__", seen)
    else:
        yield from differences(attributes(one), attributes(other), at, seen)


def attributes(value: object) -> dict[str, Any]:
    slots = {name: getattr(value, name) for name in getattr(type(value), "__slots__", ())}
    return slots | (kept(value) if hasattr(value, "__dict__") else {})


def test_all_that_is_not_named_is_kept(first: WithEvaluator, second: WithEvaluator) -> None:
    run, other = first.coordinator, second.coordinator
    run.withheld.clear()  # they would be carried out at once
    assert resumed(other, saved(run, {"queue": 3})) == {"queue": 3}
    for name, part in parts(run).items():
        found = [*differences(attributes(part), attributes(parts(other)[name]), name, {})]
        assert found == [], "name what is not to be kept in NOT_KEPT, with the reason"


def test_those_of_a_run_that_asked_nobody_for_anything_can_be_saved(second: WithEvaluator) -> None:
    run = second.coordinator
    assert resumed(run, saved(run, "beside")) == "beside"


def test_parts_that_share_something_share_it_afterwards(
    first: WithEvaluator, second: WithEvaluator
) -> None:
    resumed(second.coordinator, saved(first.coordinator))
    for run in (first.coordinator, second.coordinator):
        sampling, lag = (parts(run)[name] for name in ("Sampling", "Lag"))
        assert sampling.binding._held is run.held  # type: ignore[attr-defined]
        assert sampling.window is parts(run)["learner.update 0"].window  # type: ignore[attr-defined]
        assert run.first._invocations is run.invocations
        assert lag.run is run  # type: ignore[attr-defined]


def times(value: Any, at: str, seen: dict[int, Any]) -> Iterator[str]:
    """Where in a value a time of the first run stands."""
    if isinstance(value, float):
        if LONG_AGO / 2 < value < np.inf:
            yield f"{at} = {value}"
    elif id(value) in seen or isinstance(value, (*SINGLE, *GIVEN, np.ndarray)):
        return
    elif isinstance(value, Mapping):
        seen[id(value)] = value
        for key, each in value.items():
            yield from times(each, f"{at}[{key!r}]", seen)
    elif isinstance(value, Sequence | deque):
        seen[id(value)] = value
        for place, each in enumerate(value):
            yield from times(each, f"{at}[{place}]", seen)
    else:
        seen[id(value)] = value
        slots = {n: getattr(value, n) for n in getattr(type(value), "__slots__", ())}
        for name, each in (slots | getattr(value, "__dict__", {})).items():
            yield from times(each, f"{at}.{name}", seen)


def test_no_time_of_the_other_process_is_left(first: WithEvaluator, second: WithEvaluator) -> None:
    assert [*times(first.coordinator, "run", {})] != []
    resumed(second.coordinator, saved(first.coordinator))
    assert [*times(second.coordinator, "run", {})] == [], "name these in NOT_KEPT"


def test_settings_are_those_of_the_run_that_goes_on(
    first: WithEvaluator, second: WithEvaluator
) -> None:
    run = second.coordinator
    limits, outline = run.outline, run.plan
    resumed(run, saved(first.coordinator))
    assert run.outline is limits
    assert run.progress._outline is limits
    assert run.plan is outline
    assert not run.ending.why, "50 updates are left to be made"
    assert run.progress.updates == 9


def test_what_is_named_is_there(first: WithEvaluator) -> None:
    there = [*parts(first.coordinator).values()]
    for kind, names in NOT_KEPT.items():
        instances = [part for part in there if isinstance(part, kind)]
        assert instances, f"{kind.__name__} is no part of a run"
        for name in names:
            assert all(hasattr(part, name) for part in instances), f"{kind.__name__}.{name}"


def test_a_new_attribute_is_kept_or_refused(first: WithEvaluator, second: WithEvaluator) -> None:
    lag, other = first.coordinator.concern(Lag), second.coordinator.concern(Lag)
    lag.newer, other.newer = [first.coordinator.ports.clock, 3], None  # type: ignore[attr-defined]
    resumed(second.coordinator, saved(first.coordinator))
    assert other.newer == [second.clock, 3]  # type: ignore[attr-defined]
    lag.newer = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(NotKept, match="lock"):
        saved(first.coordinator)


def test_books_of_other_code_are_refused_by_name(
    first: WithEvaluator, second: WithEvaluator
) -> None:
    data = saved(first.coordinator)
    second.coordinator.concern(Lag).newer = 1  # type: ignore[attr-defined]
    with pytest.raises(NotKept, match="class Lag has other attributes: newer"):
        resumed(second.coordinator, data)


@pytest.mark.parametrize("version", ["0.0.1", None])
def test_states_of_another_version_are_refused_by_name(
    version: str | None, first: WithEvaluator
) -> None:
    states: dict[str, Any] = {"run": b"", "set_up": [], "members": {}, "streams": b""}
    if version is not None:
        states["version"] = version
    members = Inline(first._node, msgspec.msgpack.encode(states))
    with pytest.raises(CheckpointFault, match=r"ARTOS (0\.0\.1|of earlier days).*=model"):
        members.run(first.coordinator, lambda: None)


def test_what_was_withheld_is_carried_out(
    first: WithEvaluator, second: WithEvaluator, tmp_path: Path
) -> None:
    """The journal has it once more: its line of then is taken back where nobody was invoked."""
    before = first.coordinator.rounds.granted
    withheld = [each.number for each in first.coordinator.withheld]
    resumed(second.coordinator, saved(first.coordinator))
    second.coordinator.ports.journal.flush()
    lines = [*read(tmp_path / "second" / "journal.jsonl")]
    assert [line["firing"] for line in lines if "firing" in line][: len(withheld)] == withheld
    assert second.coordinator.rounds.granted == before + len(second.coordinator.actors) * STEPS
    assert second.coordinator.withheld == []
