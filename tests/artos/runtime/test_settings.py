"""Settings: text as users type it becomes values, signatures become a list of what may be set."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from artos.errors import Refused
from artos.runs.loader import settings_of_workload
from artos.specs.actor_count import ActorsSetting, Schedule
from artos.specs.elastic import Elastic
from artos.specs.reference import Reference
from artos.specs.settings import Setting, convert, settings_of, shown
from triggers.algorithms.ppo import workload


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", int, 7), ("1e3", int, 1000), (" 7 ", int, 7), ("-2", int, -2),
        ("0.5", float, 0.5), ("3e-4", float, 3e-4), ("7", float, 7.0), ("inf", float, float("inf")),
        ("true", bool, True), ("False", bool, False), ("7", str, "7"), ("none", str, "none"),
        ("none", float | None, None), ("null", int | None, None), ("None", bool | None, None),
        ("0.5", float | None, 0.5), ("64,64", tuple[int, ...], (64, 64)),
        ("64", tuple[int, ...], (64,)), ("[64, 32]", tuple[int, ...], (64, 32)),
        ("(64,)", tuple[int, ...], (64,)), ("1e2,5", tuple[int, ...], (100, 5)),
        ("", tuple[int, ...], ()), ("none", tuple[int, ...], ()), ("[]", tuple[int, ...], ()),
        ("0.5,2", list[float], [0.5, 2.0]), ("b", Literal["a", "b"], "b"), ("2", Literal[1, 2], 2),
        ("3", int | str, 3), ("three", int | str, "three"), ('{"a": 1}', dict[str, int], {"a": 1}),
        ("bare", Any, "bare"), ("0:2,5:3", ActorsSetting, Schedule({0: 2, 5: 3})),
    ],
)  # fmt: skip
def test_text_becomes_a_value(text: str, kind: Any, value: Any) -> None:
    assert convert("x", text, kind) == value
    assert type(convert("x", text, kind)) is type(value)


@pytest.mark.parametrize(
    ("value", "kind", "why"),
    [
        ("x", int, "x='x': write a whole number"), ("1.5", int, "whole"), ("", int, "whole"),
        ("1e40", int, "64 bits"), ("nan", float, "write a number"), ("", float, "number"),
        ("yes", bool, "write true or false"), ("1", bool, "write true or false"),
        ("c", Literal["a", "b"], "write one of a, b"),
        ("x", float | None, "write a number .* or none"),
        ("a,b", tuple[int, ...], r"write ints with commas between them \(64,64\)"),
        ("64;64", tuple[int, ...], "commas"), (1.5, int, "expected `int`"), ([1], int, "expected"),
        ("oak", ActorsSetting, "actors='oak': write a number"), ("{", dict[str, int], "expected"),
    ],
)  # fmt: skip
def test_what_is_no_such_value_is_refused(value: Any, kind: Any, why: str) -> None:
    with pytest.raises(Refused, match=why):
        convert("x", value, kind)


def test_the_list_of_a_builder() -> None:
    def build(
        size: int,
        rate: Annotated[float | None, "how fast"] = None,
        way: Annotated[Literal["a", "b"], "which way"] = "b",
        layers: tuple[int, ...] = (3, 4),
        *rest: Any,
        quick: bool = True,
        **more: Any,
    ) -> None: ...

    build.__annotations__ = inspect.get_annotations(build, eval_str=True)
    assert settings_of(build) == (
        Setting("size", "int", ""), Setting("rate", "float or none", "none", "how fast"),
        Setting("way", "choice", "b", "which way: a, b"), Setting("layers", "int,...", "3,4"),
        Setting("quick", "bool", "true"),
    )  # fmt: skip


@pytest.mark.parametrize("builder", [workload, Elastic])
def test_each_of_ours_has_a_type_a_default_and_a_line(builder: Any) -> None:
    for each in settings_of(builder):
        assert each.kind, each
        assert each.default, each
        assert 10 < len(each.does) < 90, each


@pytest.mark.parametrize("builder", [workload, Elastic])
def test_a_default_as_shown_is_the_default_as_typed(builder: Any) -> None:
    kinds = inspect.get_annotations(builder, eval_str=True)
    for name, given in inspect.signature(builder).parameters.items():
        kind = kinds[name].__origin__
        if kind != ActorsSetting:
            assert convert(name, shown(given.default), kind) == given.default


def test_the_list_of_an_object_has_its_values(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from artos import PPO, RolloutActor, Workload\n"
        "mine = Workload(name='m', actor=RolloutActor('CartPole-v1'), learner=PPO(), triggers={},"
        " steps=32)\n"
    )
    found = settings_of_workload(Reference(f"{tmp_path}/own.py:mine", {}, str(tmp_path)))
    assert {each.name: each.default for each in found} == {
        "actors": "2", "total_steps": "500000", "total_updates": "0", "steps": "32",
        "capacity": "0", "on_full": "wait", "evaluate_every": "0", "evaluation_episodes": "10",
        "checkpoint": "model", "device": "cpu", "weight": "1.0", "priority": "0", "learners": "1",
    }  # fmt: skip
    assert all(each.does for each in found)
