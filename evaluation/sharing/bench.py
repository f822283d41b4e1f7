"""Workloads that share two CPU slots and one device, compared with Ray (paper Figures 13 and 14).

Ours run at once, taking slots and device in turns, and one after the other. Ray has as many
scripts, each of which keeps its CPUs and its learner's device to its end: side by side, with a
thread a learner (with all cores each, four PPO scripts at once took 1.6 times as long as in turn),
and one after the other, with all cores. The way that is done first counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from artos.system import heap
from evaluation.core.benchmark import MEMBERS, POOL, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, baseline, ours
from evaluation.sharing.cases import (
    COUNTS,
    IDEAL,
    IN_TURN,
    MEASURES,
    RAY,
    RAY_IN_TURN,
    RAY_NARROW,
    named,
)
from evaluation.sharing.figures import draw_all
from evaluation.sharing.several import at_once, in_turn

UPDATES, QUICK, SLOTS, ENVS, STEPS = 12, 2, 2, 4, 128
UPDATE_GOAL, CPU_GOAL, DEVICE_GOAL, MAKESPAN_GOAL = 1.03, 0.5, 0.42, 0.6
_DEADLINE_SECONDS = 1_200.0
AGAINST_RAY = {
    "makespan_s": MAKESPAN_GOAL,
    "held_cpu_s": CPU_GOAL,
    "used_cpu_s": None,
    "held_device_s": DEVICE_GOAL,
    "used_device_s": None,
}
"""Measures that are compared with Ray's, with the goals of PPO; the makespan's is that of four."""
RAYS = (RAY, RAY_NARROW, RAY_IN_TURN)
Single = Callable[[], Answer]


@dataclass(frozen=True)
class Workload:
    """A run of ours; ``fewer`` steps are those of a short one, which is little but its start."""

    name: str
    command: tuple[str, ...]
    settings: tuple[str, ...]
    steps: int
    fewer: int

    def single(self, *, ideal: bool = False) -> Single:
        """A measurement of one run; ``ideal``: and what two of it would take at best."""
        chosen = (word for setting in self.settings for word in ("--set", setting))
        return ours(
            "sharing.artos_side", *(("--ideal", str(self.fewer)) if ideal else ()),
            "run", *self.command, "--total-steps", str(self.steps), "--actors", str(SLOTS),
            "--device", "pool", *chosen, seconds=_DEADLINE_SECONDS,
        )  # fmt: skip

    def options(self) -> tuple[str, ...]:
        """The same settings as options of a script with Ray."""
        pairs = (setting.split("=") for setting in self.settings)
        return tuple(word for name, value in pairs for word in (f"--{name}", value))


def ppo(updates: int) -> Workload:
    """PPO on Pong."""
    settings = (f"envs={ENVS}", f"steps={STEPS}", "epochs=4", "minibatches=4")
    batch = SLOTS * ENVS * STEPS
    return Workload("PPO", ("ppo", "--env", "PongNoFrameskip-v4"), settings, updates * batch, batch)


SAC = Workload(
    "SAC", ("sac", "--env", "Pendulum-v1"), ("batch=256", "ratio=64", "after=500"), 3000, 1000
)


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all in turn; ``quick`` only shows that everything runs."""
    results, updates = Results("sharing", repeats), QUICK if quick else UPDATES
    counts = (2,) if quick else COUNTS
    contestants = [
        *_ours(ppo(updates), counts),
        *([] if quick else _ours(SAC, counts)),
        *_rays("PPO", RAY_NARROW, ray_ppo(updates, say, "1"), counts),
        *([] if quick else _rays("PPO", RAY, ray_ppo(updates, say), counts[:1])),
        *([] if quick else _ray_in_turn("PPO", ray_ppo(updates, say))),
        *([] if quick else _rays("SAC", RAY, ray_sac(say), counts)),
        *([] if quick else _ray_in_turn("SAC", ray_sac(say))),
    ]
    alternate(results, contestants, repeats, say)
    if not quick:
        compare(results)
    return results


BENCHMARK = Benchmark(measure, (*MEMBERS, *POOL, "evaluation/elasticity"), draw_all)


def compare(results: Results) -> None:
    """Add all ratios: ours over the ideal of two, over Ray's best and over ours in turn.

    Ray's best is what is done first; its measures are those that are compared. In turn each script
    holds what one alone does.
    """
    for workload in ("PPO", "SAC"):
        ideal = named(workload, 1, IDEAL, "update_s")
        results.compare(named(workload, 2, OURS, "update_s"), ideal, UPDATE_GOAL, "at most")
    for workload, count, key in product(("PPO", "SAC"), COUNTS, AGAINST_RAY):
        rays = {named(workload, count, who, "makespan_s"): who for who in RAYS}
        best = rays.get(results.lowest(rays) or "", RAY)
        mine, theirs = (named(workload, count, who, key) for who in (OURS, best))
        judged = workload == "PPO" and (key != "makespan_s" or count == COUNTS[-1])
        results.compare(mine, theirs, AGAINST_RAY[key] if judged else None, "at most")
    for workload, count in product(("PPO", "SAC"), COUNTS[-1:]):
        mine, turn = (named(workload, count, who, "makespan_s") for who in (OURS, IN_TURN))
        results.compare(mine, turn, None, "at most")


# -- contestants -------------------------------------------------------------------------------


def _ours(workload: Workload, counts: tuple[int, ...]) -> Iterator[Contestant]:
    name, single = workload.name, workload.single()
    for count in counts:
        yield Contestant(
            f"{OURS}, {count} {name}", _cases(name, count, OURS), at_once(single, count)
        )
        if count == 1:
            case = {"ideal_s": (named(name, 1, IDEAL, "update_s"), "s")}
            yield Contestant(f"{IDEAL} {name}", case, workload.single(ideal=True))
        elif count == COUNTS[-1]:
            makespan = {"makespan_s": _cases(name, count, IN_TURN)["makespan_s"]}
            yield Contestant(f"{IN_TURN}, {count} {name}", makespan, in_turn(single, count))


def ray_ppo(updates: int, say: Say, threads: str = "") -> Single:
    """A measurement of one script of Ray's with PPO; its learner has all cores by default."""
    arguments = ("--schedule", f"{SLOTS}:0", "--count", str(updates), *ppo(updates).options())
    arguments += ("--threads", threads) if threads else ()
    return baseline(
        "ray", "elasticity.ray_adaptive", *arguments, seconds=_DEADLINE_SECONDS, say=say,
        environment=heap.ENVIRONMENT,
    )  # fmt: skip


def ray_sac(say: Say, threads: str = "1") -> Single:
    """A measurement of one script of Ray's with SAC."""
    arguments = ("--actors", str(SLOTS), "--total-steps", str(SAC.steps), *SAC.options())
    return baseline(
        "ray", "sharing.ray_sac", *arguments, "--threads", threads, seconds=_DEADLINE_SECONDS,
        say=say, environment=heap.ENVIRONMENT,
    )  # fmt: skip


def _rays(name: str, who: str, single: Single, counts: tuple[int, ...]) -> Iterator[Contestant]:
    for count in counts:
        measured = at_once(_holding(single), count)
        yield Contestant(f"{who}, {count} {name}", _cases(name, count, who), measured)


def _ray_in_turn(name: str, single: Single) -> Iterator[Contestant]:
    count = COUNTS[-1]
    cases = _cases(name, count, RAY_IN_TURN)
    yield Contestant(f"{RAY_IN_TURN}, {count} {name}", cases, in_turn(_holding(single), count))


def _holding(single: Single) -> Single:
    """Its learner has its device as long as the script runs."""

    def told() -> Answer:
        rates, versions = single()
        device = {"held_device_s": rates["run_s"], "used_device_s": rates["seconds.learn"]}
        return Answer({**rates, **device}, versions)

    return told


def _cases(workload: str, count: int, who: str) -> dict[str, tuple[str, str]]:
    return {key: (named(workload, count, who, key), "s") for key in MEASURES}
