"""Bands of learning curves, and how tasks are set on both sides."""

from __future__ import annotations

from importlib import import_module
from inspect import signature

import pytest

from evaluation.references.curves import PARTS, band, overlap, parts
from evaluation.references.tasks import TASKS
from triggers.algorithms import BUILT_IN


def test_a_part_without_episodes_is_as_the_one_before() -> None:
    found = parts([15, 20, 45], [1.0, 3.0, 8.0], 100, -5.0)
    assert found == [-5.0, 2.0, 2.0, 2.0, 8.0, *[8.0] * 5]
    assert len(found) == PARTS


def test_bands_overlap_where_they_have_a_point_in_common() -> None:
    one = [[0.0, 1.0, 5.0], [1.0, 2.0, 6.0]]
    assert band(one)["mean"] == [0.5, 1.5, 5.5]
    assert overlap(one, one) == 1.0
    assert overlap(one, [[1.0, 3.0, 9.0], [4.0, 4.0, 6.0]]) == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", TASKS)
def test_what_is_set_of_ours_can_be_set(name: str) -> None:
    settings = TASKS[name].ours
    module, _, function = BUILT_IN[settings["algorithm"]].partition(":")
    known = signature(getattr(import_module(module), function)).parameters
    assert settings.keys() - {"algorithm"} <= known.keys()
