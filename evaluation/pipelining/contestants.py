"""The contestants that move rounds and weights, with their links and features."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluation.baselines import environments
from evaluation.core.report import OURS
from evaluation.core.runner import Answer, Contestant, Say, baseline, ours
from evaluation.pipelining.cases import (
    ALL_OFF,
    BARE,
    CONTROL_CPU,
    CONTROL_DEAD,
    CONTROL_KILLED,
    CONTROL_RATE,
    FASTEST,
    HANDOVER,
    IN_PLACE,
    MEASURES,
    NO_PIPELINE,
    NOTHING,
    ONE_BATCH,
    PLAIN,
    RATE,
    RAY,
    RAY_HERE,
    REDIS,
    SAMPLE,
    SLOWEST,
    SOCKETS,
    SPEEDS,
    UNTHROTTLED,
    VARIANTS,
    WEIGHTS_HERE,
    ZEROMQ,
    Size,
    case,
    copies,
    first_use,
    fleet,
    training,
    training_wire,
)
from evaluation.pipelining.rounds import OBSERVATION_BYTES, SMALL_BYTES

_DEADLINE_SECONDS = 600.0
_WEIGHTS_MB = 6.75
_WORKERS = 2
_MILLISECONDS = 1e3


@dataclass(frozen=True)
class Scale:
    """The amount of work: the usual size and others, iterations, links, fleets of workers."""

    size: Size
    others: tuple[Size, ...]
    iterations: int
    speeds: tuple[str, ...]
    weights_speeds: tuple[str, ...]
    fleets: tuple[int, ...]
    recorded: int
    updates: int


FULL = Scale(
    size=Size(16, 512),
    others=(*(Size(n, 512) for n in (4, 8, 32)), *(Size(16, t) for t in (128, 256, 1024))),
    iterations=5,
    speeds=tuple(SPEEDS),
    weights_speeds=(UNTHROTTLED, SLOWEST),
    fleets=(10, 30, 100, 300, 1000),
    recorded=1024,
    updates=6,
)
QUICK = Scale(
    size=Size(4, 64), others=(Size(2, 64),), iterations=1, speeds=(UNTHROTTLED, SLOWEST),
    weights_speeds=(UNTHROTTLED,), fleets=(2, 4), recorded=64, updates=4,
)  # fmt: skip


class Contestants:
    """All contestants, group by group."""

    def __init__(self, scale: Scale, recording: Path, say: Say) -> None:
        self._scale, self._recording, self._say = scale, recording, say

    def __iter__(self) -> Iterator[Contestant]:
        yield from self.one_machine()
        for speed in self._scale.speeds:
            yield from self.over(speed)
        for size in self._scale.others:
            yield from self.of(size)
        for speed in self._scale.weights_speeds:
            yield from self.weights(speed)
        for speed in (UNTHROTTLED, SLOWEST):
            yield from self.training(speed)
        yield from self.control()

    # -- one machine ---------------------------------------------------------------------------

    def one_machine(self) -> Iterator[Contestant]:
        """Rounds and weights between processes of one machine, without a link."""
        for who, flags in ((OURS, ()), (f"{OURS}, whole stacks", ("--whole",))):
            yield self._handover(who, *flags)
        cases = {"first_use_s": (f"{WEIGHTS_HERE}: {OURS}", "ms")}
        arguments = ("local", *self._size(self._scale.size), *self._count())
        call = ours("pipelining.artos_weights", *arguments, seconds=_DEADLINE_SECONDS)
        yield Contestant(
            f"{OURS}, weights, one machine", cases, call, {"first_use_s": _MILLISECONDS}
        )
        yield self._ray_here()
        cases = {"first_use_s": (f"{WEIGHTS_HERE}: {RAY}", "ms")}
        yield self._here(RAY, "ray", "pipelining.ray_side", cases, "--what", "weights")
        cases = {"batch_s": (f"{HANDOVER}: {REDIS}, {ONE_BATCH}", "ms")}
        yield self._here(REDIS, "redis", "pipelining.redis_side", cases)
        cases = {"first_use_s": (f"{WEIGHTS_HERE}: {REDIS}", "ms")}
        yield self._here(REDIS, "redis", "pipelining.redis_side", cases, "--what", "weights")

    def _handover(self, who: str, *flags: str) -> Contestant:
        cases = {
            "cursors_s": (f"{HANDOVER}: {who}, {IN_PLACE}", "ms"),
            "batch_s": (f"{HANDOVER}: {who}, {ONE_BATCH}", "ms"),
        }
        arguments = (*self._size(self._scale.size), *flags)
        call = ours("pipelining.artos_handover", *arguments, seconds=_DEADLINE_SECONDS)
        return Contestant(who, cases, call, dict.fromkeys(cases, _MILLISECONDS))

    def _here(
        self,
        who: str,
        environment: str,
        module: str,
        cases: Mapping[str, tuple[str, str]],
        *more: str,
    ) -> Contestant:
        arguments = ("local", *self._size(self._scale.size), *self._count(), *more)
        call = baseline(environment, module, *arguments, seconds=_DEADLINE_SECONDS, say=self._say)
        scale = {name: _MILLISECONDS for name, (_, unit) in cases.items() if unit == "ms"}
        what = ", weights" * ("weights" in more)
        return Contestant(f"{who}{what}, one machine", cases, call, scale)

    def _ray_here(self) -> Contestant:
        """Ray on one machine; links between hosts are compared with it too."""
        cases = {
            "get_s": (f"{HANDOVER}: {RAY}, {IN_PLACE}", "ms"),
            "batch_s": (f"{HANDOVER}: {RAY}, {ONE_BATCH}", "ms"),
        }
        for measure in ("transfer_s", "wait_s", "iteration_s"):
            name, unit = MEASURES[measure]
            cases[measure] = (case(name, UNTHROTTLED, RAY_HERE), unit)
        return self._here(RAY_HERE, "ray", "pipelining.ray_side", cases)

    # -- over a link ---------------------------------------------------------------------------

    def over(self, speed: str) -> Iterator[Contestant]:
        """Over one link: ARTOS with all features, each off, and none; and the other libraries.

        Single features are off on the fastest and on the slowest link only.
        """
        for who, off in VARIANTS.items():
            if speed in (UNTHROTTLED, SLOWEST) or who in (OURS, NO_PIPELINE, NOTHING):
                yield self._mine(who, off, speed)
        yield self._linked(
            SOCKETS, "pipelining.sockets_side", speed, rate=speed == UNTHROTTLED, sample=True
        )
        yield self._linked(RAY, "pipelining.ray_side", speed, environment="ray")
        yield self._linked(REDIS, "pipelining.redis_side", speed, environment="redis")
        if speed == UNTHROTTLED:
            yield self._mine(BARE, (*ALL_OFF, "curve"), speed)
            for who, more in ((ZEROMQ, ()), (f"{ZEROMQ}, CURVE", ("--curve",))):
                yield self._linked(who, "pipelining.zeromq_side", speed, *more, rate=True)

    def of(self, size: Size) -> Iterator[Contestant]:
        """Other sizes of an iteration, for the figures."""
        for who in (OURS, NOTHING):
            yield self._mine(who, VARIANTS[who], FASTEST, size)
        for who, module, environment in (
            (RAY, "pipelining.ray_side", "ray"),
            (REDIS, "pipelining.redis_side", "redis"),
        ):
            yield self._linked(who, module, FASTEST, size=size, environment=environment)

    def _mine(
        self, who: str, off: tuple[str, ...], speed: str, size: Size | None = None
    ) -> Contestant:
        flags = [word for feature in off for word in ("--off", feature)]
        rate = who in {NOTHING, BARE} and speed == UNTHROTTLED
        return self._linked(who, "pipelining.artos_side", speed, *flags, size=size, rate=rate)

    def _linked(
        self, who: str, module: str, speed: str, *more: str, size: Size | None = None,
        environment: str = "", rate: bool = False, sample: bool = False,
    ) -> Contestant:  # fmt: skip
        cases = {m: (case(n, speed, who, size), unit) for m, (n, unit) in MEASURES.items()}
        if rate:
            cases["gb_per_s"] = (f"{RATE}: {who}", "GB/s")
        if sample:
            cases["sample_s"] = (case(SAMPLE, speed, "everyone", size), "s")
        chosen = size or self._scale.size
        call = self._link(module, speed, environment, *self._size(chosen), *more)
        gigabytes = chosen.actors * chosen.steps * (OBSERVATION_BYTES + SMALL_BYTES) / 1e9

        def measured() -> Answer:
            found = call()
            got = gigabytes / found.rates["transfer_s"]
            return Answer({**found.rates, "gb_per_s": got}, found.versions)

        return Contestant(f"{who}, {speed}, {chosen}", cases, measured)

    def _link(
        self, module: str, speed: str, environment: str, *arguments: str, workers: int = 1
    ) -> Callable[[], Answer]:
        """A call of ``lab.link``; a baseline's environment is made at its first use."""

        def measured() -> Answer:
            python = environments.prepare(environment, self._say).python if environment else ""
            mbit = SPEEDS[speed]
            options = (
                "--script", module, "--python", str(python) or sys.executable,
                "--workers", str(workers), *self._count(),
                *(("--mbit", str(mbit)) if mbit is not None else ()), *arguments,
            )  # fmt: skip
            return ours("lab.link", *options, seconds=_DEADLINE_SECONDS)()

        return measured

    # -- weights across nodes ------------------------------------------------------------------

    def weights(self, speed: str) -> Iterator[Contestant]:
        """Weights from the head to the actors of two nodes."""
        usual = (*self._size(self._scale.size), "--what", "weights")
        for who, module, environment, more in (
            (OURS, "pipelining.artos_weights", "", usual),
            (PLAIN, "pipelining.artos_weights", "", (*usual, "--off", "curve")),
            (RAY, "pipelining.ray_side", "ray", usual),
            (REDIS, "pipelining.redis_side", "redis", usual),
        ):
            cases = {
                "first_use_s": (f"{first_use(speed)}: {who}", "ms"),
                "worker_mb": (f"{copies(speed)}: {who}", "copies"),
            }
            scale = {"first_use_s": _MILLISECONDS, "worker_mb": 1 / _WEIGHTS_MB}
            call = self._link(module, speed, environment, *more, workers=_WORKERS)
            yield Contestant(f"{who}, weights, {speed}", cases, call, scale)

    # -- training ------------------------------------------------------------------------------

    def training(self, speed: str) -> Iterator[Contestant]:
        """Whole real runs on a cluster, with both pipelines and with none."""
        size, mbit = self._scale.size, SPEEDS[speed]
        for who, pipeline in ((OURS, "dual+minibatch"), (NO_PIPELINE, "none")):
            cases = {
                "iteration_s": (f"{training(speed)}: {who}", "s"),
                "wire_mb": (f"{training_wire(speed)}: {who}", "MB"),
            }
            arguments = (
                "--actors", str(size.actors), "--steps", str(size.steps), "--workers",
                str(_WORKERS), "--updates", str(self._scale.updates), "--set",
                f"pipeline={pipeline}", *(() if mbit is None else ("--mbit", str(mbit))),
            )  # fmt: skip
            call = ours("pipelining.artos_cluster", *arguments, seconds=_DEADLINE_SECONDS)
            yield Contestant(f"{who}, training, {speed}", cases, call)

    # -- control -------------------------------------------------------------------------------

    def control(self) -> Iterator[Contestant]:
        """Fleets of simulated workers."""
        for workers in self._scale.fleets:
            who = fleet(workers)
            cases = {
                "messages_per_s": (f"{CONTROL_RATE}: {who}", "1/s"),
                "head_cpu": (f"{CONTROL_CPU}: {who}", "CPUs"),
                "killed_s": (f"{CONTROL_KILLED}: {who}", "s"),
                "noticed_s": (f"{CONTROL_DEAD}: {who}", "s"),
            }
            arguments = ("--workers", str(workers))
            call = ours("control_plane.head_load", *arguments, seconds=_DEADLINE_SECONDS)
            yield Contestant(who, cases, call)

    # -- options -------------------------------------------------------------------------------

    def _size(self, size: Size) -> tuple[str, ...]:
        recording = ("--recording", str(self._recording))
        return "--actors", str(size.actors), "--steps", str(size.steps), *recording

    def _count(self) -> tuple[str, ...]:
        return "--iterations", str(self._scale.iterations)
