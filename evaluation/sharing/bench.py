"""Workloads that share two CPU slots and one device, compared with Ray (paper Figures 13 and 14).

Ours run at once, taking slots and device in turns. Ray has as many scripts on one cluster, which
stands before the clock starts; each keeps its CPUs and its learner's device to its end: side by
side, with a thread a learner (with all cores each, four PPO scripts at once took 1.6 times as long
as in turn), two by two, and one after the other, with all cores (SAC's learners have one thread
throughout). The way that is done first counts. What is held is compared with those in turn, which
have the one device and the two CPUs that ours have: side by side, Ray's have a device each. What
several in turn take is not measured: it is as many times what one takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import product

from artos.system import heap
from evaluation.core.benchmark import MEMBERS, POOL, RAY_CORE, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, baseline, ours
from evaluation.sharing.cases import (
    COUNTS,
    IDEAL,
    IN_TURN,
    MEASURES,
    RAY,
    RAY_BY_TWO,
    RAY_IN_TURN,
    RAY_NARROW,
    named,
)
from evaluation.sharing.figures import draw_all
from evaluation.sharing.several import at_once

UPDATES, QUICK, SLOTS, ENVS, STEPS = 8, 2, 2, 4, 128
UPDATE_GOAL, CPU_GOAL, DEVICE_GOAL, MAKESPAN_GOAL = 1.03, 0.5, 0.42, 0.6
_DEADLINE_SECONDS = 1_200.0
AGAINST_RAY = {
    "makespan_s": MAKESPAN_GOAL,
    "held_cpu_s": CPU_GOAL,
    "used_cpu_s": None,
    "held_device_s": DEVICE_GOAL,
}
"""Measures that are compared with Ray's, with the goals of PPO; the makespan's is that of four."""
HELD = ("held_cpu_s", "held_device_s")
RAYS = (RAY, RAY_NARROW, RAY_BY_TWO, RAY_IN_TURN)
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
        *_rays("PPO", RAY_NARROW, rays_ppo(updates, say, "1"), counts),
    ]
    if not quick:
        contestants += [
            *_ours(SAC, counts),
            *_rays("PPO", RAY, rays_ppo(updates, say), counts[:1]),
            *_rays("PPO", RAY_BY_TWO, rays_ppo(updates, say, "1"), counts[2:], 2),
            *_rays("SAC", RAY, rays_sac(say), counts),
            *_rays("SAC", RAY_BY_TWO, rays_sac(say), counts[2:], 2),
        ]
    alternate(results, contestants, repeats, say)
    if not quick:
        compare(results)
    return results


BENCHMARK = Benchmark(measure, (*MEMBERS, *POOL, *RAY_CORE, "evaluation/elasticity"), draw_all)


def compare(results: Results) -> None:
    """Add all ratios: ours over the ideal of two, over Ray's best and over ours in turn.

    Ray's best is what is done first; its measures are those that are compared. What several hold is
    compared with those in turn, as these have no more devices and CPUs than ours. The update of two
    is also compared with that of one.
    """
    for workload in ("PPO", "SAC"):
        ideal, two = named(workload, 1, IDEAL, "update_s"), named(workload, 2, OURS, "update_s")
        results.compare(two, ideal, UPDATE_GOAL, "at most")
        results.compare(two, named(workload, 1, OURS, "update_s"), None, "at most")
    for workload, count, key in product(("PPO", "SAC"), COUNTS, AGAINST_RAY):
        rays = {named(workload, count, who, "makespan_s"): who for who in RAYS}
        best = rays.get(results.lowest(rays) or "", RAY)
        other = RAY_IN_TURN if key in HELD and count > 1 else best
        mine, theirs = (named(workload, count, who, key) for who in (OURS, other))
        judged = workload == "PPO" and (key != "makespan_s" or count == COUNTS[-1])
        results.compare(mine, theirs, AGAINST_RAY[key] if judged else None, "at most")
    for workload, count in product(("PPO", "SAC"), COUNTS[-1:]):
        mine, turn = (named(workload, count, who, "makespan_s") for who in (OURS, IN_TURN))
        results.compare(mine, turn, None, "at most")


# -- contestants -------------------------------------------------------------------------------


def _ours(workload: Workload, counts: tuple[int, ...]) -> Iterator[Contestant]:
    name, single = workload.name, workload.single()
    for count in counts:
        found = Contestant(
            f"{OURS}, {count} {name}", _cases(name, count, OURS), at_once(single, count)
        )
        if count > 1:
            yield found
            continue
        yield _also_in_turn(found, name, IN_TURN, COUNTS[-1:], ["makespan_s"])
        case = {"ideal_s": (named(name, 1, IDEAL, "update_s"), "s")}
        yield Contestant(f"{IDEAL} {name}", case, workload.single(ideal=True))


Several = Callable[[int, int], Single]
"""A measurement of so many scripts of Ray's, so many of them at once."""


def rays_ppo(updates: int, say: Say, threads: str = "") -> Several:
    """Scripts of Ray's with PPO; their learners have all cores by default."""
    arguments = ("--schedule", f"{SLOTS}:0", "--count", str(updates), *ppo(updates).options())
    arguments += ("--threads", threads) if threads else ()
    return _scripts(
        "evaluation.baselines.split_ppo,ale_py", say, "elasticity.ray_adaptive", *arguments
    )


def rays_sac(say: Say) -> Several:
    """Scripts of Ray's with SAC, whose learners have a thread each."""
    return _scripts("evaluation.baselines.split_sac", say, "sharing.ray_sac", *_sac_words("1"))


def ray_sac(say: Say, threads: str = "1") -> Single:
    """A measurement of one such script, on a cluster of its own."""
    return baseline(
        "ray", "sharing.ray_sac", *_sac_words(threads), seconds=_DEADLINE_SECONDS, say=say,
        environment=heap.ENVIRONMENT,
    )  # fmt: skip


def _sac_words(threads: str) -> tuple[str, ...]:
    sizes = ("--actors", str(SLOTS), "--total-steps", str(SAC.steps))
    return (*sizes, *SAC.options(), "--threads", threads)


def _scripts(modules: str, say: Say, *script: str) -> Several:
    def several(count: int, at_once: int) -> Single:
        return baseline(
            "ray", "sharing.ray_several", "--count", str(count), "--at-once", str(at_once),
            "--cpus", str(SLOTS), "--preload", modules, *script,
            seconds=_DEADLINE_SECONDS, say=say, environment=heap.ENVIRONMENT,
        )  # fmt: skip

    return several


def _rays(
    name: str, who: str, several: Several, counts: tuple[int, ...], at_once: int = 0
) -> Iterator[Contestant]:
    """So many scripts at once, by default all of them."""
    for count in counts:
        measured = _holding(several(count, at_once or count))
        found = Contestant(f"{who}, {count} {name}", _cases(name, count, who), measured)
        alone = who == RAY and count == 1
        yield _also_in_turn(found, name, RAY_IN_TURN, COUNTS[1:], MEASURES) if alone else found


def _also_in_turn(
    one: Contestant, name: str, who: str, counts: tuple[int, ...], keys: Collection[str]
) -> Contestant:
    """With what several of it take in turn: as many times what one takes, but for an update."""
    several = {f"{key}, {count}": (key, count) for count, key in product(counts, keys)}
    cases = {each: (named(name, n, who, key), "s") for each, (key, n) in several.items()}

    def measured() -> Answer:
        rates, versions = one.measure()
        more = {
            each: rates[key] * (1 if key == "update_s" else count)
            for each, (key, count) in several.items()
        }
        return Answer({**rates, **more}, versions)

    return replace(one, cases={**one.cases, **cases}, measure=measured)


def _holding(several: Single) -> Single:
    """Learners have their devices as long as their scripts run; an update is the mean one."""

    def told() -> Answer:
        rates, versions = several()
        more = {
            "held_device_s": rates["run_s"],
            "update_s": rates.get("mean_s", rates["update_s"]),
        }
        return Answer({**rates, **more}, versions)

    return told


def _cases(workload: str, count: int, who: str) -> dict[str, tuple[str, str]]:
    return {key: (named(workload, count, who, key), "s") for key in MEASURES}
