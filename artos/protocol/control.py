"""Messages between a head daemon and users, worker daemons and run processes."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, field

from artos.protocol.message import Bulk, Message
from artos.protocol.run_keys import RunKeys
from artos.protocol.views import ClusterView, RunFacts, RunView
from artos.specs.configuration import Settings
from artos.specs.fields import (
    Count,
    Digest,
    Few,
    Labels,
    Line,
    Name,
    Number,
    Seconds,
    Share,
    Small,
    Some,
    Text,
    check_plain,
)

PROTOCOL = 24
"""Raised with every change of a message; peers with another number are refused at hello."""


MOST_SLOTS = 4096
"""Slots of a node; no machine has more CPUs."""
MOST_SHARING = 100
"""Runs on a node that share slots: learners and daemons are members of its pool, too."""
MOST_NAMED = 10_000
"""Runs that a node may name in a message."""


def sharing_faults(slots: int, runs_per_slot: int) -> list[str]:
    """Why so many runs cannot share the slots of a node."""
    given, few = f"--runs-per-slot {runs_per_slot}", max(1, MOST_SHARING // slots)
    if runs_per_slot < 1:
        return [f"{given}: it must be 1 or more"]
    if runs_per_slot > few:
        each = f"{slots} slots take {few}" if slots > 1 else f"a slot takes {few}"
        return [f"{given}: at most {MOST_SHARING} runs share slots, so {each}"]
    return []


# -- user (artos submit, list, ...) <-> head daemon ------------------------------------------------


class UserRequest(Message, frozen=True, kw_only=True):
    """Base class of users' requests to a head, which replies with ``Answer``.

    The reply has the same ``number``, which is the asker's.
    """

    number: Count = 0


class Submit(UserRequest, frozen=True, tag=True):
    """User → head: run this. ``request`` holds the flags of ``artos run`` as plain data.

    Its actors are placed on nodes that have all labels in ``where``.
    """

    request: dict[str, Any]
    archive: Digest = ""
    placement: Line = "spread"
    where: Labels = ()

    def __post_init__(self) -> None:
        check_plain(self.request)


class ListRuns(UserRequest, frozen=True, tag=True):
    """User → head: every run in short."""


class ReadStatus(UserRequest, frozen=True, tag=True):
    """User → head: one run in full; "": all nodes and all runs."""

    run: Line = ""


class ReadLogs(UserRequest, frozen=True, tag=True):
    """User → head: a log of a run from byte ``offset`` on; below 0 it counts from the end.

    ``log`` "" is the log of the run process.
    """

    run: Line
    offset: Number = 0
    log: Line = ""


class ListFiles(UserRequest, frozen=True, tag=True):
    """User → head: which files the folder of a run has."""

    run: Line


class ReadFile(UserRequest, frozen=True, tag=True):
    """User → head: bytes of a run's file from ``offset`` on."""

    run: Line
    file: Line
    offset: Count = 0


class ReadLimits(UserRequest, frozen=True, tag=True):
    """User → head: send the limits of a submission."""


class ScaleRun(UserRequest, frozen=True, tag=True):
    """User → head → run, or user → run on one machine: go on with ``actors`` actors.

    The new number holds from the next version on. A run replies with ``RunScaled``.
    """

    run: Line
    actors: Number
    request: Count = 0
    """A number of the asker's, which the reply has, too."""


class SetRun(UserRequest, frozen=True, tag=True):
    """User → head → run, or user → run on one machine: go on with these ``settings``.

    They hold from the next invocation on. A run replies with ``RunSet``.
    """

    run: Line
    settings: Settings
    request: Count = 0


class StopRun(UserRequest, frozen=True, tag=True):
    """User → head: have the run finish and save; sent again: end it at once."""

    run: Line


class DrainNode(UserRequest, frozen=True, tag=True):
    """User → head: move the actors of the node elsewhere and place no others there."""

    node: Line


class UndrainNode(UserRequest, frozen=True, tag=True):
    """User → head: place actors on a drained node again, which others still leave."""

    node: Line


class ReclaimNode(UserRequest, frozen=True, tag=True):
    """User → head: the node's machine ends in so many ``seconds``; its worker leaves within them.

    It may be said again; only less time than before changes anything.
    """

    node: Line
    seconds: Seconds


class RunScaled(Message, frozen=True, tag=True):
    """Run → head, or run → user on one machine: ``ScaleRun`` is carried out; else see ``fault``.

    ``actors`` take part from now on, ``most`` are registered.
    """

    actors: Small
    most: Small
    fault: Text = ""
    request: Count = 0


class RunSet(Message, frozen=True, tag=True):
    """Run → head, or run → user on one machine: ``SetRun`` is carried out; else see ``fault``.

    All ``settings`` that were changed so far hold now, as the run's configuration ``number``.
    """

    number: Small = 0
    settings: Settings = field(default_factory=dict)
    fault: Text = ""
    request: Count = 0


class BranchRun(Message, frozen=True, tag=True):
    """User → run on the same machine: continue an actor's present episode ``times`` times.

    The run replies with ``RunBranched``. All else is as in ``Branch``.
    """

    run: Line
    actor: Small
    times: Some
    env: Small = 0
    steps: Count = 0
    seed: Count = 0
    greedy: bool = False
    request: Count = 0
    weights: Line = ""
    best: bool = False
    seconds: Seconds = 0.0


class RunBranched(Message, frozen=True, tag=True):
    """Run → user on the same machine: ``BranchRun`` is being carried out; else see ``fault``.

    What comes of it is in ``file`` of the run's folder, once the last continuation has ended.
    """

    file: Line = ""
    fault: Text = ""
    request: Count = 0


RunRequest = ScaleRun | SetRun
"""What a live run is asked for."""
RunReply = RunScaled | RunSet
LocalRequest = RunRequest | BranchRun
"""What a run on one machine is asked for; the reply is of the same ``request``, any number."""
LocalReply = RunReply | RunBranched


class Answer(Message, frozen=True, tag=True):
    """Head → user: plain data; ``fault`` says what was wrong with the request, if anything.

    ``missing`` names an archive to be sent (``Archive``) before the request is repeated.
    """

    data: dict[str, Any] = field(default_factory=dict)
    fault: Text = ""
    missing: Digest = ""
    number: Count = 0

    def __post_init__(self) -> None:
        check_plain(self.data)


class RunAnswer(Answer, frozen=True, tag=True, kw_only=True):
    """Head → user: one run, in full to ``ReadStatus`` and in short to ``StopRun``."""

    run: RunView

    def __post_init__(self) -> None:
        check_plain(self.run.ending)


class ClusterAnswer(Answer, frozen=True, tag=True, kw_only=True):
    """Head → user: nodes and runs to ``ReadStatus``; to ``ListRuns`` only runs, in short."""

    cluster: ClusterView


class FilesAnswer(Answer, frozen=True, tag=True, kw_only=True):
    """Head → user: size in bytes and time of change in ns of a run's files, by their paths."""

    files: Annotated[dict[Line, tuple[Count, Count]], Meta(max_length=MOST_NAMED)]


class FilePiece(Bulk, frozen=True, tag=True):
    """Head → user: the answer to ``ReadFile``, or a ``fault``; no ``content`` at the file's end.

    ``size`` and ``changed`` are those of the whole file when it was read, as in ``FilesAnswer``.
    """

    size: Count = 0
    changed: Count = 0
    fault: Text = ""
    content: bytes = b""
    number: Count = 0


# -- worker daemon <-> head daemon -----------------------------------------------------------------


Named = Annotated[dict[Name, Count], Meta(max_length=MOST_NAMED)]


class Hello(Message, frozen=True, tag=True):
    """Worker → head: I am here, with ``slots`` CPUs and executors of ``runs`` (run → epoch).

    For each slot there may be ``runs_per_slot`` runs, whose actors take turns on all slots.
    ``replaces`` is the peer name of an earlier daemon of this node that is known to be dead.
    Its executors may take ``shm_bytes`` of shared memory in all; 0: any number. Learners here lease
    ``devices``, written as in ``--devices``; run processes of ``carries`` are here (run → epoch).
    """

    node: Name
    protocol: Number
    version: Line
    slots: Some
    memory_mb: Count = 0
    runs: Named = field(default_factory=dict)
    replaces: Line = ""
    runs_per_slot: Some = 1
    labels: Labels = ()
    shm_bytes: Count = 0
    devices: Line = ""
    carries: Named = field(default_factory=dict)


class Welcome(Message, frozen=True, tag=True):
    """Head → worker: admitted. A node that is silent for ``deadline`` seconds counts as gone.

    ``accounts``: runs may have system accounts of their own, which share CPUs all the same. The
    head's runs are in the folder ``runs``.
    """

    protocol: Number
    version: Line
    deadline: Seconds
    accounts: bool = False
    runs: Line = ""


class Shares(Message, frozen=True, tag=True):
    """Worker → head: ``token`` is what you wrote into your folder of runs; "": it is not here.

    A node with that folder can carry run processes; if it ``switches``, under users' accounts, too.
    """

    token: Line = ""
    switches: bool = False


class CarryRun(Message, frozen=True, tag=True):
    """Head → worker: be the machine of this run's process (``RunOrder``).

    Its ``folder`` is the same here. With ``keys`` of its own it talks to the head as the peer
    ``run:RUN/EPOCH``, and to its executors. It is a process of that ``account``; "": of the
    daemon's. The worker reports its end with ``RunEnded``.
    """

    run: Name
    epoch: Count
    request: dict[str, Any]
    archive: Digest
    folder: Line
    keys: RunKeys
    resume: bool = False
    account: Line = ""

    def __post_init__(self) -> None:
        check_plain(self.request)


class FinishRun(Message, frozen=True, tag=True):
    """Head → worker: have the run process finish and save, or end it ``at_once``.

    As with a signal, asking for the second time ends the run without waiting for its members, but
    if it is only said ``again`` to a node that may not have heard it.
    """

    run: Name
    epoch: Count
    at_once: bool = False
    again: bool = False


class RunEnded(Message, frozen=True, tag=True):
    """Worker → head: a run process has ended with ``status``: negative for a signal.

    None: it could not be started. ``why`` explains it.
    """

    run: Name
    epoch: Count
    status: Number | None = None
    why: Text = ""


class Load(Message, frozen=True, tag=True):
    """Worker → head, every second or so: actors alive per run, CPU and memory in use (0 to 1).

    Its executors have, or may have, ``shm_bytes`` of shared memory; 0: any number. ``faults``
    counts those the worker survived, ``malformed`` the messages that it refused. It leaves in
    ``seconds_left``; 0: it does not know when. Its machine's clock shows ``wall``, in seconds since
    1970.
    """

    actors: Named = field(default_factory=dict)
    cpu: Share = 0.0
    memory: Share = 0.0
    faults: Small = 0
    malformed: Small = 0
    shm_bytes: Count = 0
    seconds_left: Seconds = 0.0
    wall: Seconds = 0.0


class Assign(Message, frozen=True, tag=True):
    """Head → worker: open an executor for this run; first close one of an older ``epoch``.

    ``plan`` is the ``Plan`` as JSON, with paths as on the head, below ``folder``; ``archive`` is
    the user's code ("": none). ``steering`` and ``experience`` are endpoints of the run. Actors of
    the run hold at most ``slots`` CPUs of this node at once; sent again, other ``slots`` hold.

    A daemon that may switch starts it under the system account ``account`` ("": its own). Such a
    run has ``keys`` of its own, with which its executor talks to it.
    """

    run: Name
    epoch: Count
    plan: bytes
    folder: Line
    archive: Digest
    steering: Line
    experience: Line
    slots: Few
    account: Line = ""
    keys: RunKeys | None = None


class Unassign(Message, frozen=True, tag=True):
    """Head → worker: close the run's executor, if there is one."""

    run: Name


class ExecutorEnded(Message, frozen=True, tag=True):
    """Worker → head: the executor of a run is gone; ``why`` in words, "" if it was told to end."""

    run: Name
    epoch: Count
    why: Text = ""


class Leaving(Message, frozen=True, tag=True):
    """Worker → head: I am being stopped (SIGTERM) or drained; take my actors elsewhere."""

    why: Text


class Leave(Message, frozen=True, tag=True):
    """Head → worker: say goodbye and end, as nothing is left to do there since you are drained.

    With ``seconds``, leave within them instead: your machine ends then.
    """

    why: Text
    seconds: Seconds | None = None


class Bye(Message, frozen=True, tag=True):
    """Worker → head: all my executors have ended; or head → worker: you may end, too."""


class FetchArchive(Message, frozen=True, tag=True):
    """Worker → head: send me a piece of this archive, which begins with byte ``offset``."""

    archive: Digest
    offset: Count = 0


class ArchivePiece(Bulk, frozen=True, tag=True):
    """Head → worker: the answer to ``FetchArchive``, of an archive of ``size`` bytes; 0: not here.

    Pieces are asked for one by one: however many nodes fetch an archive, the head holds little.
    """

    archive: Digest
    offset: Count = 0
    size: Count = 0
    content: bytes = b""


class Archive(Bulk, frozen=True, tag=True):
    """User → head: ``archive`` is the SHA-256 of ``content``; ``number``: see ``UserRequest``."""

    archive: Digest
    content: bytes = b""
    number: Count = 0


class ReadNodeLog(Message, frozen=True, tag=True):
    """Head → worker: send me a log of a run from byte ``offset`` on (``logs.piece``)."""

    number: Count
    run: Name
    log: Name
    offset: Number = 0


class LogPiece(Bulk, frozen=True, tag=True):
    """Worker → head: the answer to ``ReadNodeLog``, or a ``fault``; the rest begins at ``next``."""

    number: Count
    next: Count = 0
    fault: Text = ""
    content: bytes = b""


# -- run process <-> head daemon (ipc; TCP from a worker node) -------------------------------------


class RunUp(Message, frozen=True, tag=True):
    """Run → head: I am registered and listening; choose nodes for ``actors`` actors.

    On a node it takes ``executor_bytes`` of shared memory, and ``actor_bytes`` for each actor.
    """

    run: Name
    epoch: Count
    pid: Small
    plan: bytes
    folder: Line
    steering: Line
    experience: Line
    actors: Few
    executor_bytes: Count = 0
    actor_bytes: Count = 0


class Placed(Message, frozen=True, tag=True):
    """Head → run: where each actor lives from now on (actor → node), and why that changed.

    ``gone`` are nodes that are gone for good. An actor without an entry has no place yet. With
    ``relief`` actors move because other nodes are less crowded, and there is no hurry. ``quota``
    says which quota keeps slots from them, "" if none does.
    """

    actors: dict[Small, Name]
    gone: tuple[Name, ...] = ()
    why: Text = ""
    relief: bool = False
    quota: Text = ""


class RunNews(Message, frozen=True, tag=True):
    """Run → head, a few times a second: the run's progress, as in ``artos status --json``.

    The last one that a run sends has the state done, interrupted, failed or refused, and the
    reasons in ``waits_for``. One before it is up may have the ``device`` that its code names.
    """

    run: Name
    state: Line
    waits_for: Text = ""
    facts: RunFacts | None = None
    device: Line = ""

    def __post_init__(self) -> None:
        check_plain(msgspec.to_builtins(self.facts))
