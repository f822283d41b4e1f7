"""Opens a run for its replay, or says all that is in the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from artos.buffer.rows_file import RowsFile, read_rows, write_rows
from artos.envs.known import KNOWN
from artos.errors import Refused
from artos.runs import run_config
from artos.runs.answers import Answers
from artos.runs.answers import files as answers_files
from artos.runs.plan import Plan
from artos.runs.run_config import RunConfig
from artos.runs.run_memory import RunMemory, check_space
from artos.runs.tape import (
    FOLDER,
    Begun,
    Called,
    Header,
    Published,
    Recorded,
    TapeDamaged,
    recorded,
    tapes,
)
from artos.runs.users_code import checksum_of
from artos.runtime.held import Held
from artos.runtime.taping import header_of, not_recorded
from artos.specs.fields import Count
from artos.specs.members import ACTORS, Member
from artos.specs.reference import Reference
from artos.specs.servers import ServerSpec
from artos.trained.trust import allow, require_own_places
from deploy.client.copied import goes_on
from deploy.replay.difference import JournalEnds
from deploy.replay.learners import Kept, Learned, plan_as_recorded
from deploy.replay.own_block import own_bytes
from deploy.replay.reads import Reads
from deploy.replay.replay import Outcome, Replay
from deploy.replay.script import Script
from head.records import summary_file
from head.records.provenance import differences
from head.run.concerns.recording import WIDE
from head.run.request import reference_of
from triggers.registration import Registration, prepare
from triggers.targets import parsed

_DAY = 86_400.0


@dataclass(frozen=True)
class Part:
    """A run up to its end, or to where it was resumed; and from there on."""

    plan: Plan
    script: Script
    tapes: Mapping[str, Sequence[Recorded]]
    """Those of each learner."""
    rows: tuple[int, ...] = ()
    """How many of each actor there were at its begin."""
    past: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The past versions that there were then of each learner, beside the one that it began with."""
    answers: Mapping[str, Answers] = field(default_factory=dict)
    """Those of each server."""
    states: str = ""
    """The checksum of what members held at its begin; "" if they were set up again."""
    holding: tuple[Member, ...] = ()
    """The members that held something then."""

    @property
    def begins(self) -> dict[str, int]:
        """The version that the first process of each learner found, if there was any."""
        found: dict[str, int] = {}
        for name, of_it in self.tapes.items():
            records = (record for tape in of_it for record in tape.records)
            version = next((each.version for each in records if isinstance(each, Begun)), -1)
            found |= {name: version} if version >= 0 else {}
        return found

    @property
    def made(self) -> set[int]:
        """The versions of the first learner that its invocations made: a debugger can stop there.

        Those that it began with are not among them.
        """
        found = set[int]()
        for tape in self.tapes.get(self.plan.learner, ()):
            version, is_called = -1, False
            for each in tape.records:
                if isinstance(each, Begun):
                    version = each.version
                elif isinstance(each, Called):
                    is_called = True
                elif isinstance(each, Published):
                    version += 1
                    found |= {version} if is_called else set()
        return found

    @cached_property
    def reads(self) -> dict[str, Reads]:
        """What each learner reads, where there are several."""
        names = self.plan.learners if len(self.plan.learners) > 1 else ()
        return {name: Reads(self.tapes.get(name, ()), self.script) for name in names}

    def lacks(self, found: Mapping[str, Kept]) -> list[tuple[str, int]]:
        """The versions that were there at its begin, and are not found, each with whose it is."""
        lacking = [(name, each) for name, each in self.begins.items() if name not in found]
        for name, kept in found.items():
            lacking += [(name, each) for each in self.past.get(name, ()) if each not in kept.past]
        return lacking


class _Resumed(msgspec.Struct, frozen=True):
    """A continuation of a run: its packages, and settings as they were ``before``.

    ``anew`` are those changed on resuming, in the words of ``artos set``; ``rows`` how many of each
    actor there still were, ``past`` the versions of the first learner that were still kept beside
    the newest, ``past_of`` those of others. ``states`` is the checksum of what the members in
    ``holding`` went on from; "": all were set up again.
    """

    versions: dict[str, str] = {}
    anew: tuple[str, ...] = ()
    rows: tuple[Count, ...] | None = None
    past: tuple[Count, ...] | None = None
    past_of: dict[str, tuple[Count, ...]] = {}
    states: str | None = None
    holding: tuple[Member, ...] = ()
    before: dict[str, Any] = {}


@dataclass(frozen=True)
class _End:
    """What there was at the end of a part, from which another one goes on."""

    learners: Mapping[str, Kept] = field(default_factory=dict)
    rows: RowsFile | None = None
    held: Mapping[Member, Held] = field(default_factory=dict)

    def restore(self, node: RunMemory, part: Part, folder: Path) -> None:
        for name, kept in self.learners.items():
            kept.restore(node, name, part.past.get(name, ()))
        if self.rows is not None:
            read_rows(folder / self.rows.file, self.rows, node.blocks)
        for member, held in self.held.items():
            held.write(node.site.held_path(member))


def replayed(
    run: Path,
    *,
    until: int | None = None,
    stop: int | None = None,
    trust: bool = False,
    learned: Learned = lambda learner, version, steps, metrics: None,
) -> Outcome:
    """Replay the run in a folder up to version ``until``, or to its end.

    Before version ``stop`` is made a debugger takes over. The folder is only read.

    Raises:
        Refused: it cannot be replayed, or has no version ``stop``; says all that is in the way.
    """
    if until is not None and until < (stop or 0):
        before = f"--break {stop:,}" if stop else "the first one, 0"
        raise Refused([f"the replay ends with version {until:,}, before {before}"])
    parts, versions, found = _opened(run, stop, trust=trust), 0, Outcome(True, 0)
    made = set[int]().union(*(part.made for part in parts))
    if stop is not None and stop not in made:
        which = f"its updates made {min(made):,} to {max(made):,}" if made else "it made none"
        raise Refused([f"{run}: no update made version {stop:,}, for --break: {which}"])
    for part in parts:
        check_space(part.plan, beside=own_bytes(part.plan, part.reads.values()))
    end, ends = _End(), dict[str, _End]()
    with TemporaryDirectory() as folder:
        for number, (part, then) in enumerate(zip_longest(parts, parts[1:])):
            again = then is not None and then.states in ends
            keep, rows = (then.begins, then.rows) if then and not again else ({}, ())
            with RunMemory(part.plan, f"replay-{run.resolve().name}", Path()) as node:
                end.restore(node, part, Path(folder))
                with Replay(
                    node,
                    part.script,
                    part.tapes,
                    until,
                    stop,
                    learned,
                    keep,
                    rows,
                    part.reads,
                    part.answers,
                    then.holding if then and not again else (),
                ) as replay:
                    found = replay.run()
                version = node.weights.version
                if then and again:  # the part between was lost
                    end = ends[then.states]
                else:
                    path = Path(folder) / f"rows-{number}"
                    file = write_rows(path, node.blocks) if rows else None
                    end = _End(replay.kept, file, replay.held)
                if then and then.states:  # a checkpoint takes the place of the one before
                    ends = {then.states: end}
            needed = {each.rows.file for each in (end, *ends.values()) if each.rows}
            for path in Path(folder).iterdir():
                if path.name not in needed:
                    path.unlink()
            versions += found.versions
            found = msgspec.structs.replace(found, versions=versions)
            if not found.equal or (until is not None and version >= until):
                return found
            if then and (lacking := then.lacks(end.learners)):
                name, lost = lacking[0]
                ended = f"version {lost} of {name}, from which the run went on, was not made"
                return msgspec.structs.replace(found, ended=found.ended or ended)
            if then and not replay.is_whole:
                return found
    ended = "" if until is None else f"the run has no version {until:,}"
    ended = _unfinished(run, replay) or found.ended or ended
    return msgspec.structs.replace(found, ended=ended)


def _unfinished(run: Path, replay: Replay) -> str:
    """Why there is no more to repeat of a run that goes on, or was killed; "" of others."""
    if not (replay.over is None or isinstance(replay.over, JournalEnds)):
        return ""
    upto = f"all up to version {replay.newest:,} is as in the run"
    if goes_on(run):
        return f"the run goes on: {upto}; replay it again for what came since"
    if replay.over is not None and summary_file.read(run) is None:
        return f"the run was killed, and its journal does not have all that it did last: {upto}"
    return ""


def _opened(run: Path, stop: int | None, *, trust: bool) -> list[Part]:
    try:
        plain, config = run_config.read(run, RunConfig)
    except FileNotFoundError as error:
        raise Refused([f"{run}: there is no config.json: give the folder of a run"]) from error
    resumed = [msgspec.convert(each, _Resumed) for each in config.resumed]
    settings = [config.settings]
    for each in reversed(resumed):
        settings.insert(0, settings[0] | each.before)
    faults = [*_of_the_run(config, settings)]
    references = [reference_of(config.workload, s, Path(config.folder)) for s in settings]
    for reference in {msgspec.json.encode(each): each for each in references}.values():
        allow(run, plain, reference, trust=trust)
        require_own_places(run, plain, reference.settings, trust=trust)

    def prepared(reference: Reference) -> Registration:
        try:
            return prepare(reference, config.seed, deadline=config.deadline)
        except Refused as refused:  # as what it needs may be gone, which is also why
            raise _refused(run, faults or refused.faults) from refused

    registration = prepared(references[0])
    learners = registration.plan.learners
    scripts, every = [Script()], dict[str, list[Recorded]]()
    # What lacks for another reason is no fault of its own.
    is_recorded = not (config.inline or any(not_recorded(registration.plan)))
    try:
        scripts = Script.parts(
            run / "journal.jsonl", [each.anew for each in resumed], [*_after(resumed)]
        )
        every = {name: [recorded(path) for path in tapes(run, name)] for name in learners}
    except (Refused, TapeDamaged, OSError) as error:
        wrong = error.faults if isinstance(error, Refused) else [str(error)]
        faults, is_recorded = [*faults, *wrong], False
    if is_recorded:
        faults += [
            f"{run / FOLDER / name}-{number}.tape is missing"
            for name, each in every.items()
            for number in range(len(each))
            if not (run / FOLDER / f"{name}-{number}.tape").exists()
        ]
        faults += _of_the_records(scripts, every.get(learners[0], []), len(settings))
        fired = {parsed(each.trigger).role for s in scripts for each in s.firings.values()}
        faults += [
            f"{name} learned, and none of its processes has recorded what"
            for name in learners[1:] if name in fired and not every.get(name)
        ]  # fmt: skip
    parts = list[Part]()
    for number, (reference, script) in enumerate(zip(references, scripts, strict=False)):
        if number and reference != references[number - 1]:
            registration = prepared(reference)
        of_it = {n: [t for t in all_ if t.header.resumes == number] for n, all_ in every.items()}
        headers = [tape.header for each in of_it.values() for tape in each]
        then = resumed[number - 1] if number else _Resumed(config.versions, rows=(), past=())
        faults += _of_the_code(then.versions, registration, headers, script)
        plan = plan_as_recorded(registration.plan, of_it)
        plan = msgspec.structs.replace(plan, doubts=(), resumes=number)
        if stop is not None:  # whoever debugs one replica has the others wait
            plan = msgspec.structs.replace(plan, deadline=_DAY)
        faults += _of_continuing(plan, then) if number else ()
        rows = then.rows if then.rows and any(then.rows) else ()
        answers = _answers(run, plan, number, faults) if not config.inline else {}
        past, states = {plan.learner: then.past or ()} | then.past_of, then.states or ""
        parts.append(Part(plan, script, of_it, rows, past, answers, states, then.holding))
    if faults:
        raise _refused(run, faults)
    if (plan := parts[0].plan).env_spec is not None:
        KNOWN[plan.env] = plan.env_spec
    return parts


def _after(resumed: Iterable[_Resumed]) -> Iterator[int | None]:
    """With the books of which part each continuation went on, if with any."""
    ended = dict[str, int]()
    for number, each in enumerate(resumed):
        yield ended.setdefault(each.states, number) if each.states else None


def _answers(run: Path, plan: Plan, part: int, faults: list[str]) -> dict[str, Answers]:
    """What servers answered in that part of the run, by name; if that is recorded of such a run."""
    servers = () if [*not_recorded(plan)] else plan.servers
    return {server.name: _answered(run, server, part, faults) for server in servers}


def _answered(run: Path, server: ServerSpec, part: int, faults: list[str]) -> Answers:
    """What a server answered in that part of the run; what is in the way is added to ``faults``."""
    found, wrong = Answers(), list[str]()
    there = False
    for path in answers_files(run, server.name):
        try:
            there |= found.add(path, part, server.answers)
        except (TapeDamaged, OSError) as error:
            wrong.append(str(error))
    faults += wrong if there or wrong else [_UNANSWERED.format(server.name)]
    return found


_UNANSWERED = "what {} answered was not recorded: an earlier ARTOS made it"


def _refused(run: Path, faults: Iterable[str]) -> Refused:
    return Refused([f"{run} cannot be replayed: {fault}" for fault in dict.fromkeys(faults)])


def _of_the_run(config: RunConfig, settings: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What is in the way in how it was asked for, and in the settings of any of its parts."""
    if config.inline:
        yield "it ran in one process (--inline): run it again with the same seed, which is the same"
    if any(each.get("weights") == "http" for each in settings):
        yield (
            "a server outside of the run wrote its texts (weights=http), and would not write the "
            "same ones again"
        )


def _of_the_records(
    scripts: Sequence[Script], found: Sequence[Recorded], parts: int
) -> Iterator[str]:
    """What is missing in the journal, and the tapes of the first learner, of so many parts."""
    if not (found and scripts[0].asked):
        yield (
            "it has not recorded what a replay needs: it was made by an earlier ARTOS, or ended "
            "before its first update"
        )
    elif parts > 1 and {len(scripts), len({each.header.resumes for each in found})} != {parts}:
        yield (
            "it was resumed, and its records do not say where: an earlier ARTOS made them, or a "
            "continuation ended before its first update"
        )
    for actor in sorted(set().union(*(script.unknown for script in scripts))):
        yield (
            f"{Member(ACTORS, actor)} was in the midst of a round when its node was lost, and it "
            "is not known of which: an earlier ARTOS did not record it, and where several rounds "
            "may end early only the node knew where they ended"
        )


def _of_continuing(plan: Plan, then: _Resumed) -> Iterator[str]:
    """What a run had besides its weights when it was resumed, and no record has."""
    if then.states is None and plan.checkpoint == "all":
        yield "an earlier ARTOS resumed it, and did not record which of its members went on"
    if then.states and plan.replicas > 1:
        yield "replicas of its learner went on with what they held (checkpoint=all)"
    if then.past is None and plan.objects[0].history:
        yield "an earlier ARTOS resumed it, and did not record with which past versions"
    if then.rows is None and plan.keeps_rows:
        yield "an earlier ARTOS resumed it, and did not record with which rows"


def _of_the_code(
    versions: Mapping[str, str],
    registration: Registration,
    headers: Sequence[Header],
    script: Script,
) -> Iterator[str]:
    plan = registration.plan
    yield from not_recorded(plan)
    if (dtype := plan.elastic.wire_dtype) != WIDE and not script.sent_as:
        yield (
            "an earlier ARTOS made it, and did not record whether its actors had rounded weights "
            f"(wire_dtype={dtype})"
        )
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
