"""What the paper's tables and figures say, by our arithmetic where the text errs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from evaluation.core.report import PAPER, Results

HERE = "here"


class Said(NamedTuple):
    """A figure of the paper: our name for the case, its unit, and what is wrong with it."""

    case: str
    unit: str
    value: float
    error: str = ""


TABLE_4 = (
    Said("time to the bar, PPO on Breakout, ARTOS over Ray", "×", 2228.23 / 2438.25),
    Said("time to the bar, PPO on Pong, ARTOS over Ray", "×", 1140.64 / 1051.67),
    Said(
        "time to the bar, SAC on Pong, ARTOS over Ray", "×", 5000 / 8700,
        "57.47 % of Ray's time remain; the text calls that a reduction by 57.47 %",
    ),
    Said(
        "time to the bar, SAC on Breakout, ARTOS over Ray", "×", 5088 / 10062,
        "a reduction by 49.43 %, the table's largest; the table names the environment 'SAC'",
    ),
    Said(
        "CPU held, PPO on Pong, ARTOS over Ray", "×", 0.6013,
        "derived: the text's 14.88 and 7.86 % must be percentage points between Table 6 and "
        "Figure 14; seeds, repetitions and spread are not told",
    ),
)  # fmt: skip
TABLE_6 = (
    Said("200 updates, CPU held by actors, ARTOS over Ray", "×", 12012.05 / 22687.47),
    Said("40 updates, CPU held by actors, ARTOS over Ray", "×", 2329.51 / 5148.55),
    Said(
        "200 updates, device held by the learner, ARTOS over Ray", "×", 512.49 / 1094.36,
        "resource time is time held: Ray's GPU seconds are its latency, its CPU seconds 20.7 and "
        "21.0 times that",
    ),
    Said("40 updates, device held by the learner, ARTOS over Ray", "×", 101.91 / 245.63),
    Said("200 updates, all of them, ARTOS over Ray", "×", 1053.15 / 1094.36),
    Said("40 updates, all of them, ARTOS over Ray", "×", 208.25 / 245.63),
)  # fmt: skip
FIGURE_2 = (
    Said("CPU used of that held, 32 actors, Ray", "%", 50.0, "read off the text: 'around'"),
)
FIGURE_5 = (
    Said(
        "SAC's update, ARTOS over Ray, Figure 13b", "×", 1 - 0.3799,
        "the text says PPO and shows SAC",
    ),
)  # fmt: skip
TABLE_2 = (
    Said(
        "transfer, ARTOS over Ray, Figure 15a", "×", 1.0763,
        "20.95 % behind without pipelines, 11.76 % better with them and 7.63 % behind do not fit "
        "together",
    ),
    Said(
        "transfer, Redis over Ray, §2.3", "×", 4.8209,
        "'up to 382.09 % additional' in the text, 'up to 4×' below Figure 6",
    ),
)  # fmt: skip


def beside(
    results: Results, said: tuple[Said, ...], measured: Mapping[str, tuple[str, str]]
) -> None:
    """Add the paper's figures, with what is wrong with them as notes.

    ``measured``: by the name of one the two cases whose ratio it is here, which goes above it.
    """
    for each in said:
        case = f"{each.case}: {PAPER}"
        for ratio in results.over(*measured[each.case]) if each.case in measured else ():
            results.add(f"{each.case}: {HERE}", each.unit, ratio)
        results.add(case, each.unit, each.value)
        if each.error:
            results.remark(case, each.error)
