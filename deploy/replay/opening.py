"""Opens a run for its replay, or says all that is in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from artos.buffer.rows_file import RowsFile, read_rows, write_rows
from artos.envs.known import KNOWN
from artos.errors import Refused
from artos.runs import run_config
from artos.runs.plan import Plan
from artos.runs.run_config import RunConfig
from artos.runs.run_memory import RunMemory, check_space
from artos.runs.tape import Begun, Header, Record, TapeDamaged, read, tapes
from artos.runtime.taping import checksum_of, header_of, not_recorded
from artos.specs.fields import Count
from artos.trained.trust import allow
from deploy.replay.replay import Kept, Learned, Outcome, Replay
from deploy.replay.script import Script
from head.records.provenance import differences
from head.run.request import reference_of
from triggers.registration import Registration, prepare

Tapes = Sequence[tuple[Header, Sequence[Record]]]


@dataclass(frozen=True)
class Part:
    """A run up to its end, or to where it was resumed; and from there on."""

    plan: Plan
    script: Script
    tapes: Tapes
    rows: tuple[int, ...] = ()
    """How many of each actor there were at its begin."""

    @property
    def begins(self) -> int:
        """The version that its first process found; -1: none."""
        records = (record for _, tape in self.tapes for record in tape)
        return next((each.version for each in records if isinstance(each, Begun)), -1)


class _Resumed(msgspec.Struct, frozen=True):
    """A continuation of a run: its packages, and settings as they were ``before``.

    ``anew`` are those changed on resuming, in the words of ``artos set``; ``rows`` how many of each
    actor there still were.
    """

    versions: dict[str, str] = {}
    anew: tuple[str, ...] = ()
    rows: tuple[Count, ...] | None = None
    before: dict[str, Any] = {}


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
    parts, versions, found = _opened(run, trust=trust), 0, Outcome(True, 0)
    state: Kept | None = None
    file: RowsFile | None = None
    with TemporaryDirectory() as folder:
        kept = Path(folder) / "rows"
        for part, then in zip_longest(parts, parts[1:]):
            check_space(part.plan)
            keep, rows = (then.begins, then.rows) if then else (None, ())
            with RunMemory(part.plan, f"replay-{run.resolve().name}", Path()) as node:
                if state is not None:
                    state.restore(node)
                if file is not None:
                    read_rows(kept, file, node.blocks)
                with Replay(
                    node, part.script, part.tapes, until, stop, learned, keep, rows
                ) as replay:
                    found = replay.run()
                state, version = replay.kept, node.weights.version
                file = write_rows(kept, node.blocks) if rows else None
            versions += found.versions
            found = msgspec.structs.replace(found, versions=versions)
            if not found.equal or (until is not None and version >= until):
                break
            if then and state is None:
                ended = found.ended or f"version {keep}, from which the run went on, was not made"
                return msgspec.structs.replace(found, ended=ended)
    return found


def _opened(run: Path, *, trust: bool) -> list[Part]:
    try:
        _, config = run_config.read(run, RunConfig)
    except FileNotFoundError as error:
        raise Refused([f"{run}: there is no config.json: give the folder of a run"]) from error
    faults = [*_of_the_run(config)]
    resumed = [msgspec.convert(each, _Resumed) for each in config.resumed]
    settings = [config.settings]
    for each in reversed(resumed):
        settings.insert(0, settings[0] | each.before)
    references = [reference_of(config.workload, s, Path(config.folder)) for s in settings]
    allow(run, references[-1], trust=trust)
    scripts, found = [Script()], list[tuple[Header, list[Record]]]()
    try:
        scripts = Script.parts(run / "journal.jsonl", [each.anew for each in resumed])
        found = [read(path) for path in tapes(run, "learner")]
    except Refused as refused:
        faults += refused.faults
    except (TapeDamaged, OSError) as error:
        faults.append(str(error))
    if not (config.inline or (found and scripts[0].asked)):
        faults.append(
            "it has not recorded what a replay needs: it was made by an earlier ARTOS, or ended "
            "before its first update"
        )
    elif resumed and not len(scripts) == len(settings) == len({h.resumes for h, _ in found}):
        faults.append(
            "it was resumed, and its records do not say where: an earlier ARTOS made them, or a "
            "continuation ended before its first update"
        )
    if any(script.moved for script in scripts):
        faults.append("an actor moved to another node, and what it had written there was lost")
    parts, registration = list[Part](), None
    for number, (reference, script) in enumerate(zip(references, scripts, strict=False)):
        if registration is None or reference != references[number - 1]:
            registration = prepare(reference, config.seed, deadline=config.deadline)
        of_it = [each for each in found if each[0].resumes == number]
        versions = resumed[number - 1].versions if number else config.versions
        faults += _of_the_code(versions, registration, [header for header, _ in of_it])
        header = of_it[0][0] if of_it else Header()
        plan = msgspec.structs.replace(
            registration.plan, threads=header.threads, doubts=(), resumes=header.resumes
        )
        faults += _of_continuing(plan) if number else ()
        rows = resumed[number - 1].rows if number else ()
        if rows is None and plan.keeps_rows:
            faults.append("an earlier ARTOS resumed it, and did not record with which rows")
        parts.append(Part(plan, script, of_it, rows if rows and any(rows) else ()))
    if faults:
        raise Refused([f"{run} cannot be replayed: {fault}" for fault in dict.fromkeys(faults)])
    if (plan := parts[0].plan).env_spec is not None:
        KNOWN[plan.env] = plan.env_spec
    return parts


def _of_the_run(config: RunConfig) -> Iterator[str]:
    if config.inline:
        yield "it ran in one process (--inline): run it again with the same seed, which is the same"
    if (way := config.settings.get("weights")) in ("files", "http"):
        yield f"its actors had their weights from elsewhere (weights={way})"


def _of_continuing(plan: Plan) -> Iterator[str]:
    """What a run had besides its weights when it was resumed, and no record has."""
    if plan.checkpoint == "all":
        yield "it was resumed from rows and who had claimed them (checkpoint=all)"
    if plan.objects[0].history:
        yield "it was resumed, and which past versions it then still had is not recorded"


def _of_the_code(
    versions: Mapping[str, str], registration: Registration, headers: Sequence[Header]
) -> Iterator[str]:
    plan = registration.plan
    yield from not_recorded(plan)
    yield from differences(versions, registration.versions)
    now = header_of(plan.of(plan.learner))
    for then in headers[:1]:
        changed = [name for name in now.plan if now.plan[name] != then.plan.get(name)]
        if changed:
            yield f"its code or settings have changed since: {', '.join(changed)} differ"
    folder = Path(plan.reference.folder)
    for name, then_was in sorted({each for header in headers for each in header.code.items()}):
        if checksum_of(folder / name) != then_was:
            yield f"{folder / name} has changed since"
