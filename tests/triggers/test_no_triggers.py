"""What is no trigger, in a table or inside a trigger, is refused by its place before all else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from artos.runtime.no_triggers import no_triggers
from triggers import (
    DataKeyTrigger,
    First,
    ObjectKeyTrigger,
    Once,
    SetTrigger,
    TimeTrigger,
    TransferTrigger,
    Trigger,
)
from triggers.events import Event, Firing

WHEN = ObjectKeyTrigger("model_param")


@dataclass
class Mine(Trigger):
    unless: Trigger
    size: int = 1

    def check(self, event: Event, now: float) -> Firing | None:
        return None


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("every round", "is a str, not a Trigger"),
        (2, "is a int, not a Trigger"),
        (None, "is a NoneType, not a Trigger"),
        (DataKeyTrigger, "is the class DataKeyTrigger: write DataKeyTrigger(...)"),
        (First(2), "2 is no trigger: the condition of First is one"),  # type: ignore[arg-type]
        (First(None, 2), "None is no trigger: the condition of First"),  # type: ignore[arg-type]
        (Once(Once("model_param")), "'model_param' is no trigger: the condition of Once"),  # type: ignore[arg-type]
        (WHEN & 3, "3 is no trigger: the right of And"),  # type: ignore[operator]
        (WHEN | (WHEN & TimeTrigger), "TimeTrigger'> is no trigger: the right of And"),  # type: ignore[operator]
        (SetTrigger(0.5, 1), "0.5 is no trigger: the when of SetTrigger"),  # type: ignore[arg-type]
        (TransferTrigger("a", condition=4), "4 is no trigger: the condition of Transfer"),  # type: ignore[arg-type]
        (Mine(5), "5 is no trigger: the unless of Mine"),  # type: ignore[arg-type]
    ],
)
def test_it_is_refused_by_its_place(row: Any, says: str) -> None:
    (found,) = no_triggers({"learner.update": WHEN, "learner.other": row})
    assert found.startswith("triggers['learner.other']")
    assert says in found


def test_what_is_one_is_none_of_these() -> None:
    whole = TransferTrigger("a"), TransferTrigger("a", condition=First(WHEN, 2)), WHEN & WHEN
    assert not [*no_triggers({str(number): each for number, each in enumerate(whole)})]
