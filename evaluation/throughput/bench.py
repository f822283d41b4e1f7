"""Environment steps per second of the whole training loop, without start-up: ARTOS and baselines.

Every group has runs that may be compared: the same environment and either the same
hyper-parameters (8 environments × 128 steps, 4 epochs of 4 minibatches of 256, two layers of 64 or
the Nature network, a learning rate that stays, values that are not clipped) or the best of the
settings that are tried for each library. Rivals get the allocator's settings that our learner has,
which are worth a quarter of an update of the CNN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from artos.system import heap
from evaluation.core.benchmark import MEMBERS, Benchmark
from evaluation.core.machine import has_bfloat16
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Answer, Contestant, Say, alternate, baseline, ours
from evaluation.workloads import acting

CARTPOLE = "CartPole-v1, same hyper-parameters"
CARTPOLE_BEST = "CartPole-v1, own best settings"
CARTPOLE_VECTOR = "CartPole-v1, all environments in one array, 128 of them, two epochs"
PONG = "Pong, same hyper-parameters"
PONG_BFLOAT16 = "Pong, same hyper-parameters, learner in bfloat16"
PONG_BEST = "Pong, own best settings (one epoch)"
ACTING = "Pong, acting alone, 2 × 4 environments"
ONE_FILE, SB3 = "one file", "Stable-Baselines3"
SBX, RLOX = "sbx", "rlox, its own environment"
ENVPOOL = "one file with EnvPool"
RIVALS = (ONE_FILE, ENVPOOL, SB3, SBX, RLOX, "RLlib", "Sample Factory")
OVERLAPPED = f"{OURS}, overlapped"

UNIT = "steps/s"
_DEADLINE_SECONDS = 400.0


@dataclass(frozen=True)
class Scale:
    """The length of measurements: in seconds, or in steps for contestants that count steps."""

    seconds: float
    cartpole_steps: int
    wide_steps: int
    pong_steps: int


FULL = Scale(8.0, 200_000, 1_000_000, 8_192)
QUICK = Scale(1.0, 10_240, 65_536, 2_048)


@dataclass(frozen=True)
class Goal:
    """The best of ``mine`` must reach ``goal`` times the best of ``theirs`` (None: no goal)."""

    mine: tuple[str, ...]
    theirs: tuple[str, ...]
    goal: float | None = None


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all contestants in turn; ``quick`` only shows that everything runs."""
    results = Results("throughput", repeats)
    contestants = list(Contestants(QUICK if quick else FULL, say))
    alternate(results, contestants, repeats, say)
    for goal in goals([case for c in contestants for case, _ in c.cases.values()]):
        best, baseline_best = results.best(goal.mine), results.best(goal.theirs)
        results.compare(best or goal.mine[0], baseline_best, goal.goal)
    return results


BENCHMARK = Benchmark(measure, (*MEMBERS, "evaluation/replay"))


class Contestants:
    """All contestants, group by group."""

    def __init__(self, scale: Scale, say: Say) -> None:
        self._scale, self._say = scale, say
        self._seconds = ("--seconds", str(scale.seconds))

    def __iter__(self) -> Iterator[Contestant]:
        yield from self.cartpole()
        yield from self.cartpole_best()
        yield from self.cartpole_vector()
        yield from self.pong()
        if has_bfloat16():
            yield from self.pong_bfloat16()
        yield from self.pong_best()
        yield from self.acting()

    def cartpole(self) -> Iterator[Contestant]:
        """Same hyper-parameters on CartPole-v1."""
        steps = self._scale.cartpole_steps
        yield self._ours(CARTPOLE, "", "CartPole-v1", steps, "envs=4")
        yield self._ours(CARTPOLE, "overlapped", "CartPole-v1", steps, "envs=4", "max_lag=1")
        for threads in ("1", "2"):
            label = _threads(threads)
            yield self._one_file(CARTPOLE, label, "--threads", threads)
            yield self._sb3(CARTPOLE, label, "--threads", threads)
            yield self._sbx(CARTPOLE, label, threads)
            call = self._baseline(
                "rlox", "throughput.rlox_side", *self._seconds, "--threads", threads
            )
            yield _contestant(CARTPOLE, _named(RLOX, label), call)
            yield from self._envpool(CARTPOLE, label, "cartpole", threads)
            yield self._rllib(CARTPOLE, label, "cartpole", threads)
        yield self._sample_factory(CARTPOLE, "", "cartpole", steps // 4)
        yield self._sample_factory(CARTPOLE, "rollouts of 32", "cartpole-short", steps // 4)
        yield self._sample_factory(CARTPOLE, "one process", "cartpole-serial", steps // 4)

    def cartpole_best(self) -> Iterator[Contestant]:
        """Many environments and one epoch on CartPole-v1; of what is tried, the best counts."""
        wide = ("envs=64", "epochs=1", "minibatches=16", "max_lag=1")
        steps = self._scale.wide_steps
        yield self._ours(CARTPOLE_BEST, "2 × 64 envs", "CartPole-v1", steps, *wide)
        yield self._sample_factory(
            CARTPOLE_BEST, "2 × 32 envs, batched", "cartpole-wide", steps // 4
        )
        yield self._rllib(CARTPOLE_BEST, "PPO, 2 × 32 envs", "cartpole-wide", "1")
        yield self._rllib(CARTPOLE_BEST, "IMPALA, 2 × 4 envs", "cartpole-impala", "1")
        for envs in (64, 128):
            many = ("--envs", str(envs), "--epochs", "1")
            for threads in ("1", "2"):
                label = f"{envs} envs, {_threads(threads)}"
                each = (*many, "--threads", threads)
                yield self._sb3(CARTPOLE_BEST, label, *each, "--minibatch", "1024")
                parts = str(envs * 128 // 1024)
                yield self._one_file(CARTPOLE_BEST, label, *each, "--minibatches", parts)

    def cartpole_vector(self) -> Iterator[Contestant]:
        """Gymnasium's CartPole that steps all environments in one array, on both sides."""
        settings = ("envs=64", "steps=32", "epochs=2", "minibatches=4")
        vector = ("vector:CartPole-v1", self._scale.wide_steps, *settings)
        yield self._ours(CARTPOLE_VECTOR, "", *vector)
        yield self._ours(CARTPOLE_VECTOR, "overlapped", *vector, "max_lag=1")
        sizes = ("--envs", "128", "--steps", "32", "--epochs", "2", "--minibatches", "4")
        for threads in ("1", "2"):
            each = ("--env", "cartpole-vector", "--threads", threads, *sizes)
            yield self._one_file(CARTPOLE_VECTOR, _threads(threads), *each)

    def pong(self) -> Iterator[Contestant]:
        """Same hyper-parameters on Pong, float32."""
        yield self._pong_ours(PONG, "")
        yield self._pong_ours(PONG, "overlapped", "max_lag=1")
        for threads in ("1", "2"):
            label = _threads(threads)
            pong = ("--env", "pong", "--threads", threads)
            yield self._one_file(PONG, label, *pong)
            yield self._one_file(
                PONG, f"AtariVectorEnv, {label}", "--env", "pong-ale", "--threads", threads
            )
            yield self._rllib(PONG, label, "pong", threads)
        yield from self._envpool(PONG, "2 threads", "pong", "2")
        yield self._sb3(PONG, "2 threads", "--env", "pong", "--threads", "2")
        yield self._sb3(
            PONG, "8 processes, 2 threads", "--env", "pong", "--threads", "2", "--processes"
        )
        yield self._sample_factory(PONG, "", "pong", self._scale.pong_steps // 2)

    def pong_bfloat16(self) -> Iterator[Contestant]:
        """The same with the network in bfloat16 while it learns, if the CPU supports that."""
        yield self._pong_ours(PONG_BFLOAT16, "", "bfloat16=true")
        yield self._pong_ours(PONG_BFLOAT16, "overlapped", "max_lag=1", "bfloat16=true")
        yield self._one_file(
            PONG_BFLOAT16,
            "AtariVectorEnv, 2 threads",
            "--env",
            "pong-ale",
            "--threads",
            "2",
            "--bfloat16",
        )

    def pong_best(self) -> Iterator[Contestant]:
        """One pass over every row, asynchronous if the baseline supports that."""
        one = ("epochs=1", "envs=8", "max_lag=1")
        yield self._pong_ours(PONG_BEST, "2 × 8 envs", *one, scale=2)
        yield self._sample_factory(
            PONG_BEST, "2 × 8 envs", "pong-async", self._scale.pong_steps * 2
        )
        yield self._rllib(PONG_BEST, "IMPALA, 2 × 4 envs", "pong-impala", "1")
        yield self._one_file(
            PONG_BEST, "AtariVectorEnv, 16 envs",
            "--env", "pong-ale", "--threads", "2", "--envs", "16", "--epochs", "1",
        )  # fmt: skip

    def acting(self) -> Iterator[Contestant]:
        """Acting without learning."""
        source = f"{Path(acting.__file__)}:workload"
        arguments = ("run", source, "--total-steps", str(self._scale.pong_steps * 8))
        call = ours("throughput.artos_side", *arguments, seconds=_DEADLINE_SECONDS)
        yield _contestant(ACTING, OURS, call)
        bare = ours(
            "throughput.bare_acting", *self._seconds, seconds=_DEADLINE_SECONDS,
            environment=heap.ENVIRONMENT,
        )  # fmt: skip
        yield _contestant(ACTING, "bare loop", bare)

    # -- one contestant each -------------------------------------------------------------------

    def _ours(self, group: str, label: str, env: str, steps: int, *settings: str) -> Contestant:
        arguments = ["run", "ppo", "--env", env, "--actors", "2", "--total-steps", str(steps)]
        for setting in ("lr=2.5e-4", "anneal=false", *settings):
            arguments += ["--set", setting]
        call = ours("throughput.artos_side", *arguments, seconds=_DEADLINE_SECONDS)
        return _contestant(group, _named(OURS, label), call)

    def _pong_ours(self, group: str, label: str, *settings: str, scale: int = 1) -> Contestant:
        return self._ours(
            group,
            label,
            "PongNoFrameskip-v4",
            self._scale.pong_steps * scale,
            "envs=4",
            "clip=0.1",
            *settings,
        )

    def _one_file(self, group: str, label: str, *arguments: str) -> Contestant:
        call = ours(
            "baselines.one_file_ppo",
            *(*self._seconds, *arguments),
            seconds=_DEADLINE_SECONDS,
            environment=heap.ENVIRONMENT,
        )
        return _contestant(group, _named(ONE_FILE, label), call)

    def _sb3(self, group: str, label: str, *arguments: str) -> Contestant:
        call = self._baseline("sb3", "throughput.sb3_side", *self._seconds, *arguments)
        return _contestant(group, _named(SB3, label), call)

    def _sbx(self, group: str, label: str, threads: str) -> Contestant:
        arguments = (*self._seconds, "--rival", "sbx", "--threads", threads)
        call = self._baseline("sbx", "throughput.sb3_side", *arguments)
        return _contestant(group, _named(SBX, label), call)

    def _envpool(self, group: str, label: str, env: str, threads: str) -> Iterator[Contestant]:
        arguments = (*self._seconds, "--env", env, "--threads", threads)
        for way, more in (("synchronous", ()), ("asynchronous", ("--asynchronous",))):
            call = self._baseline("envpool", "throughput.envpool_side", *arguments, *more)
            yield _contestant(group, _named(ENVPOOL, f"{way}, {label}"), call)

    def _rllib(self, group: str, label: str, case: str, threads: str) -> Contestant:
        arguments = (*self._seconds, "--case", case, "--threads", threads)
        return _contestant(
            group,
            _named("RLlib", label),
            self._baseline("ray", "throughput.rllib_side", *arguments),
        )

    def _sample_factory(self, group: str, label: str, case: str, steps: int) -> Contestant:
        arguments = ("--case", case, "--steps", str(steps))
        call = self._baseline("sample-factory", "throughput.sample_factory_side", *arguments)
        return _contestant(group, _named("Sample Factory", label), call)

    def _baseline(self, name: str, module: str, *arguments: str) -> Callable[[], Answer]:
        return baseline(
            name, module, *arguments, seconds=_DEADLINE_SECONDS, say=self._say,
            environment=heap.ENVIRONMENT,
        )  # fmt: skip


def _contestant(group: str, who: str, call: Callable[[], Answer]) -> Contestant:
    case = f"{group}: {who}"
    return Contestant(case, {"steps_per_second": (case, UNIT)}, call)


def _named(who: str, label: str) -> str:
    return f"{who}, {label}" if label else who


def _threads(count: str) -> str:
    return f"{count} thread" + "s" * (count != "1")


def goals(cases: Sequence[str]) -> list[Goal]:
    """The goals over the cases that were measured.

    Like is compared with like: what samples and learns in turn with what does so, the same kind of
    environments, the same precision. Each rival is at its best: the fastest of its ways. Where each
    is at the best of the settings that are tried, ours is overlapped.
    """

    def of(group: str, who: str) -> tuple[str, ...]:
        named = (f"{group}: {who}", f"{group}: {who}, ")
        return tuple(case for case in cases if case == named[0] or case.startswith(named[1]))

    found = []
    for group, wanted in (
        (CARTPOLE, {ONE_FILE: 2.2, SB3: 3.0}),
        (CARTPOLE_VECTOR, {}),
        (PONG, dict.fromkeys(RIVALS, 2.0)),
        (PONG_BFLOAT16, {ONE_FILE: 2.0}),
    ):
        mine = (f"{group}: {OURS}",)
        found += [Goal(mine, of(group, rival), wanted.get(rival)) for rival in RIVALS]
        found.append(Goal((f"{group}: {OVERLAPPED}",), mine))
    for group, wanted in ((CARTPOLE_BEST, {SB3: 3.0}), (PONG_BEST, {})):
        found += [Goal(of(group, OURS), of(group, r), wanted.get(r)) for r in RIVALS]
    found.append(Goal(of(ACTING, OURS), of(ACTING, "bare loop"), 0.95))
    return [goal for goal in found if goal.mine[:1] and goal.theirs and goal.mine[0] in cases]
