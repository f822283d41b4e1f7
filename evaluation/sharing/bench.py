"""Workloads that share two CPU slots and one device, beside Ray (paper Figures 13 and 14).

Ours run at once, taking slots and device in turns, and one after the other. Ray has as many
scripts side by side, each of which keeps its CPUs and its learner's device to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, baseline, ours
from evaluation.sharing.several import at_once, in_turn

RAY = "Ray"
UPDATES, QUICK, SLOTS, ENVS, STEPS = 12, 2, 2, 4, 128
UPDATE_GOAL, CPU_GOAL, DEVICE_GOAL, MAKESPAN_GOAL = 1.03, 0.5, 0.42, 0.6
_DEADLINE_SECONDS = 1_200.0
_MEASURES = {
    "update_s": "update",
    "makespan_s": "makespan, start-up included",
    "held_cpu_s": "CPU slots held",
    "used_cpu_s": "CPU used by actors",
    "held_device_s": "device held",
}
IDEAL = f"{OURS}, ideal for two"
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


def ppo(updates: int) -> Workload:
    """PPO on Pong, by the sizes of the script with Ray."""
    settings = ("envs=4", "steps=128", "epochs=4", "minibatches=4")
    batch = SLOTS * ENVS * STEPS
    return Workload("PPO", ("ppo", "--env", "PongNoFrameskip-v4"), settings, updates * batch, batch)


SAC = Workload(
    "SAC", ("sac", "--env", "Pendulum-v1"), ("batch=256", "ratio=64", "after=500"), 3000, 1000
)


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all in turn; ``quick`` only shows that everything runs."""
    results, updates = Results("sharing", repeats), QUICK if quick else UPDATES
    counts = (2,) if quick else (1, 2, 4)
    contestants = [
        *_ours(ppo(updates), counts),
        *([] if quick else _ours(SAC, counts)),
        *_rays(updates, counts, say),
    ]
    alternate(results, contestants, repeats, say)
    if not quick:
        _compare(results)
    return results


def _compare(results: Results) -> None:
    for workload in ("PPO", "SAC"):
        ideal = _named(workload, 1, IDEAL, "update")
        results.compare(_named(workload, 2, OURS, "update"), ideal, UPDATE_GOAL, "at most")
    for count in (1, 2, 4):
        for measure, goal in (("CPU slots held", CPU_GOAL), ("device held", DEVICE_GOAL)):
            mine, theirs = (_named("PPO", count, who, measure) for who in (OURS, RAY))
            results.compare(mine, theirs, goal, "at most")
    what = _MEASURES["makespan_s"]
    mine, theirs = (_named("PPO", 4, who, what) for who in (OURS, RAY))
    results.compare(mine, theirs, MAKESPAN_GOAL, "at most")
    for workload in ("PPO", "SAC"):
        for count in (2, 4):
            turn = _named(workload, count, f"{OURS}, in turn", what)
            results.compare(_named(workload, count, OURS, what), turn, None, "at most")


def _ours(workload: Workload, counts: tuple[int, ...]) -> Iterator[Contestant]:
    name, single = workload.name, workload.single()
    for count in counts:
        yield Contestant(
            f"{OURS}, {count} {name}", _cases(name, count, OURS), at_once(single, count)
        )
        if count == 1:
            case = {"ideal_s": (_named(name, 1, IDEAL, "update"), "s")}
            yield Contestant(f"{IDEAL} {name}", case, workload.single(ideal=True))
        else:
            who = f"{OURS}, in turn"
            makespan = {"makespan_s": _cases(name, count, who)["makespan_s"]}
            yield Contestant(f"{who}, {count} {name}", makespan, in_turn(single, count))


def _rays(updates: int, counts: tuple[int, ...], say: Say) -> Iterator[Contestant]:
    arguments = ("--schedule", f"{SLOTS}:0", "--count", str(updates))
    single = baseline(
        "ray", "elasticity.ray_adaptive", *arguments, seconds=_DEADLINE_SECONDS, say=say
    )

    def told() -> Answer:
        """Its learner has its device as long as the script runs."""
        rates, versions = single()
        return Answer({**rates, "held_device_s": rates["run_s"]}, versions)

    for count in counts:
        cases = _cases("PPO", count, RAY)
        yield Contestant(f"{RAY}, {count} PPO", cases, at_once(told, count))


def _cases(workload: str, count: int, who: str) -> dict[str, tuple[str, str]]:
    return {key: (_named(workload, count, who, what), "s") for key, what in _MEASURES.items()}


def _named(workload: str, count: int, who: str, what: str) -> str:
    return f"{count} {workload}, {what}: {who}"
