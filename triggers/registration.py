"""Turns what the user typed into a plan that can run, or into all reasons why it cannot."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec

from artos.clock import LONGEST
from artos.errors import DeadlineExceeded, Refused
from artos.runs.loader import load_object, user_imports
from artos.runs.plan import Plan
from artos.runtime.preload import Preloaded
from artos.runtime.register import Registered, register
from artos.scaling.policy import Custom, ScalingPolicy
from artos.specs.elastic import NAMES, Elastic
from artos.specs.fields import MOST
from artos.specs.reference import Reference
from artos.specs.settings import Setting, settings_of
from artos.specs.unreadable import UNREADABLE
from artos.system.child_modules import ChildModule
from artos.system.exit_report import SLOW, START_SECONDS
from artos.system.under_way import NoAnswer
from triggers.table import Table, decode_table
from triggers.verify import verifier
from triggers.wiring import completed


@dataclass(frozen=True)
class Registration:
    """A verified plan, its trigger table, the user's own scaling policy, and further settings.

    ``resolved`` holds all its settings, ``versions`` those of the packages it was built with.
    Processes are forked from ``preloaded`` if there is one.
    """

    plan: Plan
    table: Table
    policy: ScalingPolicy | None = None
    settings: tuple[Setting, ...] = ()
    resolved: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    preloaded: Preloaded | None = None

    def resumed(self, times: int) -> Registration:
        """A copy for the ``times``-th continuation of the run."""
        return replace(self, plan=msgspec.structs.replace(self.plan, resumes=times))


def register_apart(
    reference: Reference, seed: int, preloaded: Preloaded, deadline: float = 300.0
) -> Registered:
    """Register in a process of its own, so that user code never runs in a daemon.

    Raises:
        Refused: the environment did not answer to a call within ``deadline`` seconds, the process
            took much longer, or it ended without an answer.
    """
    arguments = (msgspec.json.encode(reference).decode(), str(seed))
    seconds = max(START_SECONDS, deadline)
    try:
        answer = preloaded.answer(ChildModule.REGISTER, arguments, seconds, each=deadline)
    except NoAnswer as error:
        raise Refused([f"{error}: {SLOW}"]) from None
    except DeadlineExceeded:
        why = f"building {reference.source} took more than {seconds:g} s: {SLOW}"
        raise Refused([why]) from None
    try:
        return msgspec.json.decode(answer.out, type=Registered)
    except UNREADABLE:
        tail = answer.said.decode(errors="replace").strip()[-1500:]
        said = f"; its last output:\n{tail}" if tail else ""
        if answer.status == -signal.SIGKILL:
            end = (
                "was killed (SIGKILL); unless somebody did that, this machine or its cgroup ran "
                "out of memory: free some, or build less"
            )
        elif answer.status < 0:
            end = f"crashed ({signal.strsignal(-answer.status)})"
        else:
            end = f"ended with exit status {answer.status}"
        raise Refused([f"building {reference.source} {end}{said}"]) from None


def _early_faults(seed: int, deadline: float, elastic: dict[str, Any]) -> Iterator[str]:
    """What can be said before the user's code runs."""
    if not 0 < deadline <= LONGEST:
        yield f"--deadline must be positive, at most {LONGEST:g} seconds, not {deadline:g}"
    if not 0 <= seed <= MOST:
        yield f"--seed must be within 0 and {MOST}, not {seed}"
    try:
        Elastic().changed(elastic)
    except Refused as refused:
        yield from refused.faults


def prepare(
    reference: Reference,
    seed: int,
    preloaded: Preloaded | None = None,
    *,
    apart: bool = True,
    deadline: float = 300.0,
    host_faults: Callable[[Plan], Iterable[str]] = lambda plan: (),
) -> Registration:
    """Register, complete and verify a workload; ``host_faults`` says what this host cannot do.

    User code runs in a process forked from ``preloaded`` if ``apart``, else in this one, where a
    learner's threads follow nothing.

    Raises:
        Refused: all faults at once, each with what to change.
    """
    # Every workload has the settings of elastic actors, so its own code does not get them.
    elastic = {name: value for name, value in reference.settings.items() if name in NAMES}
    own = {name: value for name, value in reference.settings.items() if name not in NAMES}
    reference = msgspec.structs.replace(reference, settings=own)
    early = [*_early_faults(seed, deadline, elastic)]
    seed, deadline = max(seed, 0), deadline if not early else START_SECONDS
    with ExitStack() as opened:
        if apart:
            parent = preloaded or opened.enter_context(Preloaded(reference))
            made = register_apart(reference, seed, parent, deadline)
        else:
            opened.enter_context(user_imports(reference.folder))
            made = register(reference, seed)
    if made.plan is None:
        raise Refused([*early, *made.faults])
    faults: list[str] = []
    plan = msgspec.structs.replace(made.plan, deadline=deadline)
    if plan.threads_follow and not apart:  # in one process a seed decides every bit
        plan = msgspec.structs.replace(plan, threads=1, threads_follow=False)
    if not apart:
        beside = (
            msgspec.structs.replace(each, threads=1, threads_follow=False)
            if each.threads_follow
            else each
            for each in plan.beside
        )
        plan = msgspec.structs.replace(plan, beside=tuple(beside))
    if not apart:  # replicas learn what one learner does, and here they would take turns
        plan = plan.undivided()
    try:
        plan = msgspec.structs.replace(plan, elastic=plan.elastic.changed(elastic))
    except Refused as refused:
        faults += [fault for fault in refused.faults if fault not in early]
    load = partial(load_object, folder=reference.folder)
    table = decode_table(plan.triggers, load)
    policy = plan.scaling.policy(load) if isinstance(plan.scaling, Custom) else None
    plan, table = completed(plan, table)
    faults += host_faults(plan)
    faults = [*early, *faults, *made.faults, *verifier.faults(plan, table)]
    if faults:
        raise Refused(faults)
    settings = (*made.settings, *settings_of(Elastic))
    resolved = made.resolved | msgspec.structs.asdict(plan.elastic)
    return Registration(plan, table, policy, settings, resolved, made.versions, preloaded)
