"""What figures look like: nothing hides or cuts anything, and all can be told apart."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure

from deploy.figures.drawing import SIZE, composed, drawn, label, labels_apart, look
from deploy.figures.questions import Curve, draw_bars, draw_curves
from deploy.figures.read_run import Group

LONG = "ppo on CartPole-v1 " + " ".join(f"{'W' * 12}={n}" for n in range(40))
NAMES = [["short"], ["a" * 30, "b" * 30], [LONG, f"{LONG}0"], [f"run {n}" for n in range(20)]]


def curves(names: list[str]) -> list[Curve]:
    at = np.linspace(0.0, 5_000.0, 30)
    return [Curve(name, at, np.stack([at, at + 1.0])) for name in names]


@pytest.mark.parametrize("names", NAMES, ids=len)
def test_the_legend_lies_below_axes_that_stay_as_large(names: list[str]) -> None:
    beside = "mean return of 100 episodes; band: lowest to highest"
    figure = composed(lambda axes: draw_curves(axes, curves(names), "steps", beside))
    figure.draw_without_rendering()
    (legend,), (axes,) = figure.legends, figure.axes
    up = axes.yaxis.label.get_window_extent()
    assert 0 <= up.y0 < up.y1 <= figure.bbox.height
    below, whole = legend.get_window_extent(), axes.get_tightbbox()
    assert below.x0 >= 0
    assert below.x1 <= figure.bbox.width
    assert below.y1 <= whole.y0
    assert axes.get_window_extent().height > 0.6 * SIZE[1] * figure.dpi
    assert axes.get_window_extent().width > 0.6 * SIZE[0] * figure.dpi
    assert len({text.get_text() for text in legend.get_texts()}) == len(names)


@pytest.mark.parametrize("most", [0, 8, 15])
def test_what_is_below_bars_does_not_overlap(most: int) -> None:
    names = {f"{1 << n}": f"{1 << n}-{(2 << n) - 1}" for n in range(most + 1)}
    shares = [(Group("a", (), "a"), [dict.fromkeys(names, 0.1)])]
    figure = composed(lambda axes: draw_bars(axes, names, shares, "lag", "share"))
    figure.draw_without_rendering()
    ticks = figure.axes[0].get_xticklabels()
    boxes = [tick.get_window_extent() for tick in ticks]
    if most == 8:
        assert ticks[0].get_rotation() == 45
    if ticks[0].get_rotation():  # parallel lines of text, as far apart as their ends are
        height = ticks[0].get_fontsize() / 72 * figure.dpi
        assert all((b.x1 - a.x1) * np.sin(np.pi / 4) > height for a, b in pairwise(boxes))
    else:
        assert all(a.x1 < b.x0 for a, b in pairwise(boxes))


def test_seconds_below_one_are_not_written_as_thousandths() -> None:
    at = np.linspace(0.0, 0.15, 30)
    for factor, letters in ((1.0, ""), (1e5, "k")):
        curve = Curve("a", factor * at, np.stack([at]))
        figure = composed(lambda axes, curve=curve: draw_curves(axes, [curve], "seconds", ""))
        figure.draw_without_rendering()
        texts = {text.get_text()[-1:] for text in figure.axes[0].get_xticklabels()}
        assert {each for each in texts if each.isalpha()} == {*letters}


def test_many_curves_and_bars_differ_and_neighbouring_curves_also_without_colours() -> None:
    looks = [look(number) for number in range(28)]
    assert len({(each.colour, each.dashes) for each in looks}) == 28
    assert len({(each.colour, each.hatch) for each in looks}) == 28
    assert all(a.dashes != b.dashes for a, b in pairwise(looks))


def test_labels_that_are_cut_stay_apart() -> None:
    texts = [LONG, "short", LONG.replace("=20", "=21"), LONG, "short"]
    first, short, second, again, _ = labels_apart(texts)
    assert (first, short) == (f"{label(LONG)} (1)", "short")
    assert second == f"{label(LONG)} (2)"
    assert again == first
    assert [label(each) for each in (first, second)] == [first, second]


def test_nothing_to_explain_takes_no_room() -> None:
    assert composed(lambda axes: None).get_figheight() == SIZE[1]
    assert isinstance(composed(lambda axes: None), Figure)
    assert drawn(lambda axes: None, ("svg",))["svg"].startswith(b"<?xml")
