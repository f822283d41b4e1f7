"""When a GPU's driver is asked, and what its answers come to."""

from __future__ import annotations

import pytest

from artos.runtime.device_meter import DeviceMeter, meter_of


class Driver:
    """Samples the device four times a second, always as a quarter busy."""

    def __init__(self) -> None:
        self.now, self.asked = 1_000.0, list[float]()

    def samples(self, since: float) -> list[tuple[float, float]]:
        self.asked.append(since)
        ticks = (quarter / 4 for quarter in range(4_000, int(self.now * 4) + 1))
        return [(at, 0.25) for at in ticks if at > since]


def test_it_asks_once_a_second_and_only_for_what_is_new() -> None:
    driver = Driver()
    meter = DeviceMeter(driver.samples, lambda: driver.now)
    found = 0.0
    for _ in range(100):
        driver.now += 0.1  # half of it an update
        found += meter.updated(0.05)
    assert 8 <= len(driver.asked) <= 10
    assert driver.asked == sorted(driver.asked)
    assert found == pytest.approx(100 * 0.05 * 0.75, rel=0.1)


def test_where_the_driver_says_nothing_the_clock_counts() -> None:
    now = [0.0]
    meter = DeviceMeter(lambda since: [], lambda: now[0])
    for _ in range(30):
        now[0] += 1.0
        assert meter.updated(0.9) == 0.0


def test_a_cpu_has_no_meter() -> None:
    assert meter_of("cpu") is None
