"""``artos bench inference``: one process that has the network, against one in each actor.

Eight actors of four environments play Pong with the Nature network on CPUs, and nobody learns, so
only acting counts. Actors that have the network take turns on the CPUs; those that ask share them.
Of several ways to ask the best one counts. The trip of a request, to a server that has no network
to evaluate, is compared with that of a commit, through the coordinator, to an invocation.

Answers of a device take longer and none of the CPU's time. One actor steps some of its environments
meanwhile if it has them in splits. What that can gain is told from how long steps and answers take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from evaluation.core.benchmark import MEMBERS, Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import TIMES, Answer, Contestant, Say, alternate, ours
from evaluation.inference import device
from evaluation.workloads import acting

ACTORS, ENV = 8, "ALE/Pong-v5"
ACTING = f"Pong, acting alone, {ACTORS} × 4 environments"
TRIP = f"there and back, {ACTORS} actors"
ANSWERED, INVOKED = "request to answer, without a network", "commit to invocation"
IN_ACTORS, CENTRAL = "each actor has the network", "one process has the network"
WAYS = {
    IN_ACTORS: (),
    CENTRAL: ("--set", "inference=central"),
    f"{CENTRAL}, 2 at once": (
        "--set",
        "inference=central",
        "--set",
        "batch=2",
        "--set",
        "wait=0.003",
    ),
    f"{CENTRAL}, 2 splits": ("--set", "inference=central", "--set", "splits=2"),
}
ANSWER_SECONDS, DEVICE_ENVS = 0.002, 16
DEVICE = f"Pong, answers take {ANSWER_SECONDS * 1e3:g} ms, 1 × {DEVICE_ENVS} environments"
WHOLE, HALVES = f"{OURS}, no splits", f"{OURS}, 2 splits"
GAIN = f"gain of 2 splits by the times of the whole, {DEVICE}: {WHOLE}"
ACTING_GOAL, TRIP_GOAL, SPLITS_GOAL = 0.95, 1.5, 1.2
"""The least ratio of rates, the largest of latencies, and the least of rates with splits."""
_DEADLINE_SECONDS = 600.0


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all in turn; ``quick`` only shows that everything runs."""
    results = Results("inference", repeats)
    steps, rounds = (2_048, 20) if quick else (65_536, 500)
    contestants = [*_acting(steps), *_trips(rounds), *_devices(steps)]
    alternate(results, contestants, repeats, say)
    central = [f"{ACTING}: {OURS}, {way}" for way in WAYS if way != IN_ACTORS]
    own = f"{ACTING}: {OURS}, {IN_ACTORS}"
    results.compare(results.best(central) or central[0], own, ACTING_GOAL)
    answered, invoked = f"{TRIP}: {ANSWERED}", f"{TRIP}: {INVOKED}"
    results.compare(answered, invoked, TRIP_GOAL, "at most")
    results.compare(f"{DEVICE}: {HALVES}", f"{DEVICE}: {WHOLE}", SPLITS_GOAL)
    return results


BENCHMARK = Benchmark(measure, (*MEMBERS, "evaluation/throughput", "evaluation/triggers"))


def _acting(steps: int) -> Iterator[Contestant]:
    workload = f"{Path(acting.__file__)}:workload"
    for way, settings in WAYS.items():
        arguments = (
            "run", workload, "--env", ENV, "--actors", str(ACTORS), "--total-steps", str(steps),
            "--set", "steps=64", *settings,
        )  # fmt: skip
        call = ours("throughput.artos_side", *arguments, seconds=_DEADLINE_SECONDS)
        cases = {"steps_per_second": (f"{ACTING}: {OURS}, {way}", "steps/s")}
        yield Contestant(f"{OURS}, {way}", cases, call)


def _trips(rounds: int) -> Iterator[Contestant]:
    arguments = ("--actors", str(ACTORS), "--rounds", str(rounds))
    for module, key, what in (
        ("inference", "answer", ANSWERED),
        ("triggers", "invocation", INVOKED),
    ):
        call = ours(f"{module}.artos_side", *arguments, seconds=_DEADLINE_SECONDS)
        yield Contestant(what, {key: (f"{TRIP}: {what}", "µs")}, call)


def _devices(steps: int) -> Iterator[Contestant]:
    workload = f"{Path(device.__file__)}:workload"
    settings = {"envs": DEVICE_ENVS, "seconds": ANSWER_SECONDS}
    for who, splits in ((WHOLE, 1), (HALVES, 2)):
        chosen = {**settings, "splits": splits}
        words = [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
        arguments = ("run", workload, "--env", ENV, "--total-steps", str(steps), *words)
        call = ours("throughput.artos_side", *arguments, seconds=_DEADLINE_SECONDS)
        cases = {"steps_per_second": (f"{DEVICE}: {who}", "steps/s")}
        if splits == 1:
            call, cases["gain"] = _with_gain(call), (GAIN, "times")
        yield Contestant(who, cases, call)


def _with_gain(call: Callable[[], Answer]) -> Callable[[], Answer]:
    """The answer of a run without splits, and what arithmetic says that two would gain."""

    def measured() -> Answer:
        rates, versions = call()
        stepping, waiting = (rates[f"{TIMES}{name}"] for name in ("environment", "inference"))
        return Answer({**rates, "gain": device.most_gain(stepping, waiting)}, versions)

    return measured
