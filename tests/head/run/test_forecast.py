"""When an update will be over, forecast from what the last ones took."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from head.run.concerns.forecast import (
    EARLIEST,
    Forecast,
    QuantileForecast,
    WindowForecast,
    quantile,
)


def fed(forecast: Forecast, *updates: tuple[float, Iterable[float]]) -> Forecast:
    """A forecast after these updates: the restores before each one, and its duration."""
    for fin, starts in updates:
        forecast.restored([*starts])
        forecast.learned(fin)
    return forecast


def test_the_threshold_of_the_paper() -> None:
    """min(learner_fins) - max(actor_starts) - range(learner_fins[i] - actor_starts[i])."""
    fins, starts = (10.0, 10.5, 10.2, 11.0, 10.4), (0.5, 0.4, 0.7, 0.6, 0.4)
    window = fed(
        WindowForecast(), *((fin, [start]) for fin, start in zip(fins, starts, strict=True))
    )
    between = [fin - start for fin, start in zip(fins, starts, strict=True)]
    assert window.prewarm == pytest.approx(10.0 - 0.7 - (max(between) - min(between)))
    assert window.update == 10.0


def test_a_start_of_the_paper_is_the_mean_of_an_updates_actors() -> None:
    window = fed(WindowForecast(), *[(10.0, [0.2, 0.6])] * 5)
    assert window.prewarm == pytest.approx(10.0 - 0.4)


def test_the_window_pairs_the_newest_with_the_newest() -> None:
    """The first updates had nothing to restore: their durations have no partner."""
    window = fed(WindowForecast(), (10.0, []), (10.0, []), *[(10.0, [0.5])] * 2, (10.4, [0.9]))
    assert window.prewarm == pytest.approx(10.0 - 0.9)


@pytest.mark.parametrize(
    ("fins", "stable"),
    [
        ((10.0,) * 4, False),
        ((10.0,) * 5, True),
        ((9.0, 10.0, 10.0, 10.0, 11.0), False),
        ((9.01, 10.0, 10.0, 10.0, 10.99), True),
        ((99.0, 10.0, 10.0, 10.0, 10.0, 10.0), True),
    ],
)
def test_the_window_is_used_while_updates_are_stable(fins: tuple[float, ...], stable: bool) -> None:
    """The range below a fifth of the mean, of a full window of five."""
    window = fed(WindowForecast(), *((fin, [0.1]) for fin in fins))
    assert (window.prewarm is not None) is stable
    assert (window.update is not None) is stable


@pytest.mark.parametrize("forecast", [WindowForecast(), QuantileForecast()])
def test_without_a_restore_there_is_nothing_to_prewarm(forecast: Forecast) -> None:
    fed(forecast, *[(10.0, [])] * 5)
    assert forecast.prewarm is None
    assert forecast.update is not None


def test_quantiles_forecast_from_the_second_update_on() -> None:
    forecast = fed(QuantileForecast(), (10.0, [0.1, 0.5]))
    assert (forecast.prewarm, forecast.update) == (None, None)
    fed(forecast, (10.0, [0.3]))
    assert forecast.update == pytest.approx(9.5)
    assert forecast.prewarm == pytest.approx(9.5 - 0.49)


def test_one_slow_update_does_not_stop_quantiles() -> None:
    window, quantiles = WindowForecast(), QuantileForecast()
    for forecast in (window, quantiles):
        fed(forecast, *[(10.0, [0.5])] * 6, (30.0, [0.5]))
    assert window.prewarm is None
    assert quantiles.prewarm == pytest.approx(9.5 - 0.5)


def test_fewer_actors_shorten_updates_and_more_lengthen_starts() -> None:
    forecast = fed(QuantileForecast(), *[(10.0, [0.5])] * 4)
    forecast.rescaled(4, 2)
    assert forecast.prewarm == pytest.approx(4.75 - 0.5)
    forecast.rescaled(2, 8)
    assert forecast.prewarm == pytest.approx(4.75 - 2.0), "early rather than late"
    fed(forecast, *[(20.0, [1.0])] * 4)
    assert forecast.prewarm == pytest.approx(4.75 - 2.0)
    fed(forecast, (20.0, [1.0]))
    assert forecast.prewarm == pytest.approx(19.0 - 1.0), "five updates of the new size count"


def test_bounds_from_before_do_not_hide_what_is_worse() -> None:
    forecast = fed(QuantileForecast(), *[(10.0, [0.5])] * 4)
    forecast.rescaled(2, 4)
    fed(forecast, *[(4.0, [3.0])] * 2)
    assert forecast.prewarm == pytest.approx(3.8 - 3.0)


def test_a_restore_longer_than_the_update_is_ordered_once_actors_have_parked() -> None:
    forecast = fed(QuantileForecast(), *[(1.0, [3.0])] * 2)
    assert forecast.prewarm == pytest.approx(0.95 - 3.0)
    assert forecast.when == pytest.approx(EARLIEST * 0.95)


def test_the_window_keeps_old_values_when_the_number_changes() -> None:
    """As in the paper: until they have left the window, or it is unstable."""
    forecast = fed(WindowForecast(), *[(10.0, [0.5])] * 5)
    forecast.rescaled(4, 2)
    assert forecast.prewarm == pytest.approx(9.5)
    fed(forecast, (5.0, [0.5]))
    assert forecast.prewarm is None
    fed(forecast, *[(5.0, [0.5])] * 4)
    assert forecast.prewarm == pytest.approx(4.5)


def in_time(forecast: Forecast, fins: Iterable[float], randoms: random.Random) -> list[bool]:
    """For each update: whether its actors would have been back when it ended."""
    found = []
    for fin in fins:
        start = randoms.uniform(0.15, 0.45)
        at = forecast.prewarm
        found.append(at is not None and max(at, 0.0) + start <= fin)
        forecast.restored([start])
        forecast.learned(fin)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_are_in_time_on_a_busy_machine(seed: int) -> None:
    """Updates that vary by a few per cent, one in twenty of them half as long again."""
    randoms = random.Random(seed)
    fins = [
        randoms.uniform(4.0, 4.2) * (1.5 if randoms.random() < 0.05 else 1.0) for _ in range(300)
    ]
    ours = in_time(QuantileForecast(), fins, randoms)[5:]
    papers = in_time(WindowForecast(), fins, randoms)[5:]
    assert sum(ours) >= 0.99 * len(ours)
    assert sum(papers) < sum(ours)


def test_the_more_updates_vary_the_earlier() -> None:
    """By half of what lies between their low quantile and their median."""
    forecast = fed(QuantileForecast(), *[(10.0 + n, [0.5]) for n in range(21)][-20:])
    low, median = 11.95, 20.5
    assert forecast.update == pytest.approx(0.95 * (low - 0.5 * (median - low)))


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 2.5), (1.0, 4.0), (0.25, 1.75)])
def test_quantiles_lie_between_values(share: float, value: float) -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], share) == pytest.approx(value)
