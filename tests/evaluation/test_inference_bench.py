"""``artos bench inference``: what splits can gain where answers take a while."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evaluation.core.report import Ratio
from evaluation.core.runner import TIMES, Answer
from evaluation.inference import bench, device


@pytest.mark.parametrize(
    ("stepping", "waiting", "gain"),
    [
        (4.0, 0.4, 1.1),  # all waits are hidden
        (4.0, 2.0, 1.5),  # the most there is
        (4.0, 4.0, 1.0),  # the server has no time left
        (4.0, 0.8, bench.SPLITS_GOAL),
    ],
)
def test_splits_hide_answers_that_take_less_than_the_steps(
    stepping: float, waiting: float, gain: float
) -> None:
    assert device.most_gain(stepping, waiting) == pytest.approx(gain)


def test_answers_of_a_device_are_zeros_for_each_row() -> None:
    made = device.workload("CartPole-v1", envs=4, splits=2, seconds=0.0)
    (server,) = made.actor.servers.values()
    assert isinstance(server, device.Device)
    server._keys = server.answers(made.actor)
    found = server.answer({"observations": np.zeros((3, 4), np.float32)})
    assert {name: array.shape for name, array in found.items()} == {"out": (3, 2), "values": (3,)}


def test_splits_are_judged_beside_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def answered(module: str, *words: str, seconds: float) -> Any:
        rate = 130.0 if "splits=2" in words else 100.0
        times = {f"{TIMES}environment": 4.0, f"{TIMES}inference": 1.0}
        rates = {"steps_per_second": rate, "answer": 70.0, "invocation": 90.0, **times}
        return lambda: Answer(rates, {})

    monkeypatch.setattr(bench, "ours", answered)
    found = bench.measure(1, False, lambda _: None).report()
    (ratio,) = (each for each in found.ratios if each.case.startswith(bench.DEVICE))
    assert isinstance(ratio, Ratio)
    assert (ratio.median, ratio.holds) == (1.3, True)
    (most,) = (row for row in found.rows if row.case == bench.GAIN)
    assert most.median == 1.25
