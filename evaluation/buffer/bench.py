"""The buffer compared with bare memory copies and with other libraries' replay buffers.

The work: writing and gathering 84×84×4 uint8 frame stacks, and sampling batches of 256 of them with
their successors, actions, rewards and ends. All on one core with one torch thread, except Reverb,
whose server has threads, and with the memory settings that our learner has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from artos.system import heap
from evaluation.buffer.workload import CAPACITY, OBSERVATION_BYTES
from evaluation.core.benchmark import Benchmark
from evaluation.core.report import OURS, Results
from evaluation.core.runner import Contestant, Say, alternate, baseline, ours

WRITE = "write frame stacks"
GATHER = "full batch, 16 actors × 512"
UNIFORM = "uniform batch of 256 with successors"
PRIORITISED = "prioritised batch of 256, priorities updated"

BYTES_A_SECOND, ROWS = "GB/s", "rows/s"
_GB = OBSERVATION_BYTES / 1e9
_DEADLINE_SECONDS = 300.0

OUR_CASES = {
    "write.rollout": (f"{WRITE}: {OURS}, a commit every 128 steps", BYTES_A_SECOND),
    "write": (f"{WRITE}: {OURS}, a commit every step", BYTES_A_SECOND),
    "memcpy": (f"{WRITE}: plain copy", BYTES_A_SECOND),
    "gather": (f"{GATHER}: {OURS}", BYTES_A_SECOND),
    "gather.memcpy": (f"{GATHER}: plain copy", BYTES_A_SECOND),
    "uniform": (f"{UNIFORM}: {OURS}", ROWS),
    "uniform.once": (f"{UNIFORM}: {OURS}, frames stored once", ROWS),
    "uniform.numpy": (f"{UNIFORM}: NumPy gather", ROWS),
    "prioritised": (f"{PRIORITISED}: {OURS}", ROWS),
    "prioritised.once": (f"{PRIORITISED}: {OURS}, frames stored once", ROWS),
}
_OUR_SCALE = dict.fromkeys(("write.rollout", "write", "memcpy", "gather", "gather.memcpy"), _GB)

RLOX = "rlox, float32"

# The number: how many times 28 KB a row takes. With its successor that is 2, and 8 in float32.
BASELINES: Mapping[str, tuple[str, str, int]] = {
    "Stable-Baselines3": ("sb3", "buffer.sb3_side", 2),
    "Tianshou": ("tianshou", "buffer.tianshou_side", 2),
    "TorchRL": ("torchrl", "buffer.torchrl_side", 2),
    "Reverb": ("reverb", "buffer.reverb_side", 1),
    RLOX: ("rlox", "buffer.rlox_side", 8),
}

# (measure of ARTOS, case it is compared with, goal); docs/benchmarks.md shows which goals hold.
GOALS: Sequence[tuple[str, str, float | None]] = (
    ("write.rollout", f"{WRITE}: plain copy", 0.9),
    ("write", f"{WRITE}: plain copy", None),
    ("gather", f"{GATHER}: plain copy", 0.9),
    ("uniform", f"{UNIFORM}: NumPy gather", 0.9),
    ("uniform", f"{UNIFORM}: Stable-Baselines3", 3.0),
    ("uniform.once", f"{UNIFORM}: Stable-Baselines3", None),
    ("uniform", f"{UNIFORM}: Tianshou", 1.8),
    ("uniform", f"{UNIFORM}: TorchRL", 3.0),
    ("uniform", f"{UNIFORM}: Reverb", None),
    ("uniform", f"{UNIFORM}: {RLOX}", None),
    ("uniform.once", f"{UNIFORM}: {OURS}", 1.0),
    ("prioritised", f"{PRIORITISED}: Tianshou", 1.8),
    ("prioritised", f"{PRIORITISED}: TorchRL", 3.0),
    ("prioritised", f"{PRIORITISED}: Reverb", None),
    ("prioritised", f"{PRIORITISED}: {RLOX}", None),
    ("prioritised.once", f"{PRIORITISED}: {OURS}", 1.0),
)


def measure(repeats: int, quick: bool, say: Say = print) -> Results:
    """Measure all contestants in turn; ``quick`` only shows that everything runs."""
    seconds, capacity = (0.1, 2_000) if quick else (2.0, CAPACITY)
    arguments = ("--seconds", str(seconds), "--capacity", str(capacity))
    results = Results("buffer", repeats)
    # Twice as long, as it is near to the plain copies.
    mine = ours(
        "buffer.artos_side", "--seconds", str(2 * seconds), *arguments[2:],
        seconds=_DEADLINE_SECONDS, environment=heap.ENVIRONMENT,
    )  # fmt: skip
    contestants = [Contestant(OURS, OUR_CASES, mine, _OUR_SCALE)]
    contestants += [_baseline(name, arguments, say) for name in BASELINES]
    alternate(results, contestants, repeats, say)
    for measured, against, goal in GOALS:
        results.compare(OUR_CASES[measured][0], against, goal)
    return results


BENCHMARK = Benchmark(measure, ("artos/buffer", "artos/system"))


def _baseline(name: str, arguments: Sequence[str], say: Say) -> Contestant:
    environment, module, stored = BASELINES[name]
    cases = {
        "write": (f"{WRITE}: {name}", BYTES_A_SECOND),
        "uniform": (f"{UNIFORM}: {name}", ROWS),
        "prioritised": (f"{PRIORITISED}: {name}", ROWS),
    }
    if name == "Stable-Baselines3":
        del cases["prioritised"]
    call = baseline(
        environment, module, *arguments,
        seconds=_DEADLINE_SECONDS, say=say, environment=heap.ENVIRONMENT,
    )  # fmt: skip
    return Contestant(name, cases, call, {"write": stored * _GB})
