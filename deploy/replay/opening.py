"""Opens a run for its replay, or says all that is in the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from artos.envs.known import KNOWN
from artos.errors import Refused
from artos.runs import run_config
from artos.runs.plan import Plan
from artos.runs.run_config import RunConfig
from artos.runs.run_memory import RunMemory, check_space
from artos.runs.tape import Header, Record, TapeDamaged, read, tapes
from artos.runtime.taping import checksum_of, header_of, not_recorded
from artos.trained.trust import allow
from deploy.replay.replay import Learned, Outcome, Replay
from deploy.replay.script import Script
from head.records.provenance import differences
from head.run.request import reference_of
from triggers.registration import Registration, prepare

Tapes = Sequence[tuple[Header, Sequence[Record]]]


def replayed(
    run: Path,
    *,
    until: int | None = None,
    stop: int | None = None,
    trust: bool = False,
    learned: Learned = lambda version, steps, metrics: None,
) -> Outcome:
    """Replay the run in a folder up to version ``until``, or to its end.

    Before version ``stop`` is made a debugger takes over. The folder is only read.

    Raises:
        Refused: it cannot be replayed; says all that is in the way.
    """
    with _opened(run, trust=trust) as (plan, script, found):
        check_space(plan)
        with (
            RunMemory(plan, f"replay-{run.resolve().name}", Path()) as node,
            Replay(node, script, found, until, stop, learned) as replay,
        ):
            return replay.run()


@contextmanager
def _opened(run: Path, *, trust: bool) -> Iterator[tuple[Plan, Script, Tapes]]:
    try:
        _, config = run_config.read(run, RunConfig)
    except FileNotFoundError as error:
        raise Refused([f"{run}: there is no config.json: give the folder of a run"]) from error
    faults = [*_of_the_run(config)]
    reference = reference_of(config.workload, config.settings, Path(config.folder))
    allow(run, reference, trust=trust)
    script, found = Script(), []
    try:
        script = Script.of(run / "journal.jsonl")
        found = [read(path) for path in tapes(run, "learner")]
    except Refused as refused:
        faults += refused.faults
    except (TapeDamaged, OSError) as error:
        faults.append(str(error))
    if not (config.inline or (found and script.asked)):
        faults.append(
            "it has not recorded what a replay needs: it was made by an earlier ARTOS, or ended "
            "before its first update"
        )
    if script.moved:
        faults.append("an actor moved to another node, and what it had written there was lost")
    registration = prepare(reference, config.seed, deadline=config.deadline)
    faults += _of_the_code(config, registration, [header for header, _ in found])
    if faults:
        raise Refused([f"{run} cannot be replayed: {fault}" for fault in faults])
    plan = msgspec.structs.replace(
        registration.plan, threads=found[0][0].threads, doubts=(), resumes=found[0][0].resumes
    )
    if plan.env_spec is not None:
        KNOWN[plan.env] = plan.env_spec
    yield plan, script, found


def _of_the_run(config: RunConfig) -> Iterator[str]:
    if config.inline:
        yield "it ran in one process (--inline): run it again with the same seed, which is the same"
    if (way := config.settings.get("weights")) in ("files", "http"):
        yield f"its actors had their weights from elsewhere (weights={way})"
    if config.resumed:
        times = "once" if len(config.resumed) == 1 else f"{len(config.resumed)} times"
        yield f"it was resumed {times}: what came before and after cannot be joined yet"


def _of_the_code(
    config: RunConfig, registration: Registration, headers: Sequence[Header]
) -> Iterator[str]:
    plan = registration.plan
    yield from not_recorded(plan)
    yield from differences(config.versions, registration.versions)
    now = header_of(plan.of(plan.learner))
    for then in headers[:1]:
        changed = [name for name in now.plan if now.plan[name] != then.plan.get(name)]
        if changed:
            yield f"its code or settings have changed since: {', '.join(changed)} differ"
    folder = Path(plan.reference.folder)
    for name, then_was in sorted({each for header in headers for each in header.code.items()}):
        if checksum_of(folder / name) != then_was:
            yield f"{folder / name} has changed since"
