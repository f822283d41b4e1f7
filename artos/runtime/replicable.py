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
    several, who = plan.replicas_setting, type(learner).__name__
    if plan.replicas > _MOST:
        yield f"{several}: there can be {_MOST} at most"
    if not learner.replicable:
        yield (
            f"{several}: {who} makes its updates alone: leave out learners, or, if it is your "
            "own, divide its batches and set replicable = True (docs/how-to/replicas.md)"
        )
    for target, trigger in triggers.items():
        count, what, more = _handed_over(trigger, plan.at_work.least, plan.envs)
        # A method that only prepares an update may do so with all rows in every replica.
        prepares = target.partition(".")[2] in learner.non_publishing
        if 0 < count < plan.replicas and not (trigger.demand and prepares):
            yield (
                f"triggers[{target!r}] {what.format(count)}{'s' * (count > 1)}, which {several} "
                f"cannot divide: raise {more}, or lower learners"
            )
    if GPU.fullmatch(device):
        yield from _lacking_gpus(device, plan)


def device_of_replica(device: str, rank: int) -> str:
    """Where a replica computes: of GPUs each has its own, from the one that was named on."""
    gpu = GPU.fullmatch(device)
    return device if gpu is None else f"cuda:{int(gpu[1] or 0) + rank}"


def _handed_over(trigger: Any, actors: int, envs: int) -> tuple[int, str, str]:
    """How many of what a batch has that replicas divide, 0 if it is not known; what to raise."""
    if trigger.draw:
        return getattr(trigger.draw.pattern, "batch", 0), "draws {} row", "batch"
    if (demand := trigger.demand) is None or demand.episodes:  # each is as long as it happens to be
        return 0, "", ""
    n = actors if demand.n is None else demand.n
    return n * demand.size * envs, "hands over {} row", "size, envs or n (or actors)"


def _lacking_gpus(device: str, plan: Plan) -> Iterator[str]:
    import torch  # noqa: PLC0415  # only where a GPU is asked for

    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    last = device_of_replica(device, plan.replicas - 1)
    if there and int(last.removeprefix("cuda:")) >= there:
        yield (
            f"{plan.replicas_setting} on {device!r} compute on GPUs up to {last}, one each, and "
            f"there are only cuda:0 to cuda:{there - 1}: lower learners, or name an earlier device"
        )
