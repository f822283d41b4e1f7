"""What keeps several processes from making a learner's updates together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from artos.runs.plan import Plan
from artos.specs.contracts import Learner
from artos.specs.devices import GPU

_MOST = 64


def replica_faults(
    plan: Plan, learner: Learner, triggers: Mapping[str, Any], device: str
) -> Iterator[str]:
    """All of it, each with what to change; ``triggers`` are those that fire the learner."""
    several, who = f"learners={plan.replicas}", type(learner).__name__
    if plan.replicas > _MOST:
        yield f"{several}: there can be {_MOST} at most"
    if not learner.replicable:
        yield (
            f"{several}: {who} makes its updates alone: leave out learners, or, if it is your "
            "own, divide its batches and set replicable = True (docs/how-to/replicas.md)"
        )
    for target, trigger in triggers.items():
        rows = getattr(trigger.draw.pattern, "batch", 0) if trigger.draw else 0
        if 0 < rows < plan.replicas:
            yield (
                f"triggers[{target!r}] draws {rows} rows, which {several} cannot divide: raise "
                "batch, or lower learners"
            )
    if GPU.fullmatch(device):
        yield from _lacking_gpus(device, plan.replicas)


def device_of_replica(device: str, rank: int) -> str:
    """Where a replica computes: of GPUs each has its own, from the one that was named on."""
    gpu = GPU.fullmatch(device)
    return device if gpu is None else f"cuda:{int(gpu[1] or 0) + rank}"


def _lacking_gpus(device: str, replicas: int) -> Iterator[str]:
    import torch  # noqa: PLC0415  # only where a GPU is asked for

    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    last = device_of_replica(device, replicas - 1)
    if there and int(last.removeprefix("cuda:")) >= there:
        yield (
            f"learners={replicas} on {device!r} compute on GPUs up to {last}, one each, and there "
            f"are only cuda:0 to cuda:{there - 1}: lower learners, or name an earlier device"
        )
