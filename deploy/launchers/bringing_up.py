"""``artos up`` and ``artos down``: a cluster on an engine, from its record to its last unit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from artos.clock import Deadline
from artos.errors import ArtosError, DeadlineExceeded, Refused
from artos.protocol.views import ClusterView, NodeView
from artos.system import private_folder
from artos.system.locks import FileLock
from artos.system.regular_file import contents
from artos.transport import keys
from artos.transport.address import FILE, published_in
from deploy.client.head_client import HeadClient
from deploy.launchers import cluster as clusters
from deploy.launchers.cluster import HEAD, Cluster
from deploy.launchers.launcher import (
    EngineFailed,
    Launcher,
    Unit,
    last_said,
    launcher_of,
    launcher_type,
    misasked,
)

_LOOK = 0.5
_GONE = 60.0
_MARGIN = 10.0
_WITHOUT_HEAD = 10.0
"""Seconds without a unit of the head, after which it is taken as ended: a list may lag behind."""
_LAST_BYTES = 1_000
_HEARD_LATER = 60.0
"""Seconds, at most, between a worker's last word and when its head takes it as lost."""
_NAMED = 8
"""Workers that are named; of more there is the number."""
Say = Callable[[str], None]


class TakenDown(ArtosError):
    """The cluster ``name`` was ended while it was waited for."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"cluster {name} was taken down meanwhile: `artos up` starts it again")


class HeadEnded(ArtosError):
    """The head of a new cluster ended by itself. ``log`` is its log, ``last`` the end of that."""

    def __init__(self, name: str, log: Path) -> None:
        self.name, self.log, self.last = name, log, ""
        with suppress(OSError):
            self.last = _end_of(log)
        super().__init__(
            f"the head of {name} has ended; once its reason is mended, `artos up` starts it again "
            f"(`artos down {name}` gives up). The end of {log}:\n{self.last}"
        )


class Started(msgspec.Struct, frozen=True):
    """A cluster as it is when ``artos up`` returns."""

    name: str
    engine: str
    folder: str
    keys: str
    address: str
    """Where it is reached from here, wherever the engine places the head: file:PATH; or
    tcp://127.0.0.1:PORT as long as ``forward`` runs."""
    head: str = ""
    """tcp://IP:PORT, or tcp://NAME:PORT in a network of its own; "" until it has been placed."""
    forward: str = ""
    """The command that makes the head reachable from here, where it is needed."""
    nodes: tuple[NodeView, ...] = ()
    """Workers that have joined."""
    missing: tuple[str, ...] = ()
    """What has not come yet, and since when it is waited for."""
    joined: bool = False
    """Whether it was up before."""


class Asked(NamedTuple):
    """When a cluster was asked for, in seconds since 1970, and when once more; 0: it was not."""

    at: float
    again_at: float

    @property
    def otherwise(self) -> str:
        """Since when something is missing of which nobody knows it."""
        return f"before {_in_words(self.again_at)}" if self.again_at else _in_words(self.at)


def up(wanted: Cluster, wait: float, say: Say) -> Started:
    """Start a cluster, or join it if it is up; wait for its workers, for so many seconds at most.

    Raises:
        Refused: something is wrong with what is wanted, or another cluster has that name.
        EngineFailed: the engine did not take the head; nothing is left behind, or it is said what.
        HeadEnded: the head could not live.
    """
    if found := [*misasked(wanted), *launcher_type(wanted.engine).faults(wanted)]:
        raise Refused(found)
    launcher = launcher_of(wanted)
    for caution in launcher.cautions():
        say(caution)
    with _alone(wanted):
        joined, begun = _join(wanted), False
        try:
            if not joined:
                keys.make_keys(wanted.keys)  # first: with a record they are taken for complete
                wanted.save()
            wanted.end_file.unlink(missing_ok=True)  # of an `artos down` that was broken off
            if any(unit.index == HEAD for unit in launcher.units()):
                launcher.hand_out_keys()
            else:
                begun = True
                launcher.start([HEAD])
        except BaseException:
            left = joined
            if not joined:
                try:
                    launcher.clear()
                except ArtosError:
                    left = begun
                    how = f"`artos up` again, or `artos down {wanted.name}`"
                    say(f"what was begun may still be there: {how}, once the engine answers")
            if not left:  # else its keys say whose it is
                wanted.forget()
            raise
    try:
        asked = Asked(wanted.asked_at, time.time() if joined else 0.0)
        return msgspec.structs.replace(_wait(wanted, launcher, asked, wait, say), joined=joined)
    except KeyboardInterrupt:
        say(f"cluster {wanted.name} comes up all the same: `artos down {wanted.name}` ends it")
        raise


def down(name: str, say: Say, *, forget: bool = False) -> Cluster:
    """End a cluster: its runs save, its workers leave, and nothing of it remains but runs and logs.

    To ``forget`` is to leave behind, and say, what cannot be ended or removed: for a host or an
    engine that does not come back.

    Raises:
        Refused: there is no such cluster.
        DeadlineExceeded: units are left even after the engine was told to end them.
        EngineFailed: something could not be ended or removed; it may be tried again.
    """
    cluster = clusters.load(clusters.clusters() / name)
    launcher = launcher_of(cluster)
    with _alone(cluster):
        cluster.end_file.touch()

        def end_head() -> None:
            _end(launcher, [HEAD], cluster.head_seconds, "the head: its runs save", say)

        def end_workers() -> None:
            workers = [unit.index for unit in launcher.units() if unit.index != HEAD]
            _end(launcher, workers, cluster.notice + _MARGIN, f"{len(workers)} workers", say)

        for step in (end_head, end_workers, launcher.clear):
            try:
                step()
            except (EngineFailed, DeadlineExceeded) as error:
                if not forget:
                    say(
                        f"not all of it could be removed: `artos down {name}` again once that can "
                        "be done, or with --forget if it never can"
                    )
                    raise
                say(f"left behind: {error}")
        cluster.forget()
    return cluster


@contextmanager
def _alone(cluster: Cluster) -> Iterator[None]:
    """While nobody else brings this cluster up or down."""
    try:
        private_folder.keep(cluster.path)
        lock = FileLock.take(cluster.path / "lock")
    except OSError as error:
        raise Refused([f"{cluster.folder} cannot hold a cluster: {error}"]) from error
    if lock is None:
        raise Refused([f"another `artos up` or `artos down` works on {cluster.name}: wait for it"])
    with lock:
        yield


def _join(wanted: Cluster) -> bool:
    """Whether the cluster is up already, as wanted.

    Raises:
        Refused: it is up, but is another one.
    """
    try:
        found = clusters.load(wanted.path)
    except Refused:
        if (wanted.path / clusters.RECORD).exists():
            raise
        return False
    if not found.mark:  # it was broken off while it began, or while it was forgotten
        return False
    other = [
        f"{name} is {getattr(found, name)!r}, not {getattr(wanted, name)!r}"
        for name in Cluster.__struct_fields__
        if getattr(found, name) != getattr(wanted, name)
    ]
    if other:
        raise Refused(
            [f"cluster {wanted.name} is up, and differs: {'; '.join(other)}. Take another --name, "
             f"or `artos down {wanted.name}` first"]
        )  # fmt: skip
    return True


def _wait(cluster: Cluster, launcher: Launcher, asked: Asked, seconds: float, say: Say) -> Started:
    """Look until the head answers and the least number of workers has joined.

    Raises:
        HeadEnded: there is no head any more.
        TakenDown: somebody has ended it meanwhile.
        EngineFailed: the engine does not answer, also at the end of that time.
    """
    deadline, said = Deadline(seconds), ""
    without = Deadline(_WITHOUT_HEAD)
    while True:
        try:
            started, units = _look(cluster, launcher, asked)
        except EngineFailed as failed:
            if deadline.passed:
                raise
            if (news := f"{failed}; it is asked again") != said:
                said = news
                say(news)
            time.sleep(min(_LOOK, deadline.left))
            continue
        if not started.missing or deadline.passed:
            return started
        if started.head or any(unit.index == HEAD for unit in units):
            without = Deadline(_WITHOUT_HEAD)
        elif without.passed and not launcher.inside:
            if not cluster.mark:
                raise TakenDown(cluster.name)
            raise HeadEnded(cluster.name, cluster.log(HEAD))
        if (news := "; ".join(started.missing)) != said:
            said = news
            say(f"waiting for {news}")
        time.sleep(min(_LOOK, deadline.left))


def _look(cluster: Cluster, launcher: Launcher, asked: Asked) -> tuple[Started, Sequence[Unit]]:
    """What there is, and the engine's units if anything is missing."""
    head, view = "", ClusterView()
    units: Sequence[Unit] = ()
    if launcher.inside:
        units = launcher.units()
        return _look_at_units(cluster, launcher, units, asked), units
    with suppress(Refused):
        head = published_in(cluster.address).endpoint
    if head:
        with suppress(ArtosError), HeadClient(head, cluster.keys, patient=False) as client:
            view = client.cluster()
    nodes = tuple(
        node
        for node in view.nodes
        if node.alive
        and cluster.index(node.name) is not None
        and node.memory_mb  # else an earlier head knew it, and it has not said anything yet
    )
    missing = []
    if not head or not view.version or len(nodes) < cluster.least:
        units = launcher.units()
        if not view.version:
            missing.append(_missing("the head", [u for u in units if u.index == HEAD], asked))
        if lacks := cluster.least - len(nodes):
            names = {node.name for node in nodes}
            others = [u for u in units if u.index != HEAD and cluster.node(u.index) not in names]
            lost_at = _lost_at(cluster, view.nodes, lacks)
            what = f"{lacks} of {cluster.least} workers"
            missing.append(_missing(what, others, asked, lost_at))
            there = {unit.index for unit in units}
            ended = [
                index
                for index in range(cluster.least)
                if index not in there and cluster.node(index) not in names
            ]
            if ended and (
                why := launcher.refusal(ended) or _last_line(cluster, ended, lost_at or asked.at)
            ):
                missing[-1] += f": {why}"
    started = Started(
        cluster.name, cluster.engine, cluster.folder, str(cluster.keys),
        f"{FILE}{cluster.address}", head if view.version else "", "", nodes, tuple(missing),
    )  # fmt: skip
    return started, units


def _look_at_units(
    cluster: Cluster, launcher: Launcher, units: Sequence[Unit], asked: Asked
) -> Started:
    """What only the engine can tell, as the head cannot be reached from here."""
    heads = [unit for unit in units if unit.index == HEAD]
    workers = [unit for unit in units if unit.index != HEAD]
    up = [unit for unit in workers if unit.state == "runs" and unit.ready]
    missing = []
    if not any(unit.state == "runs" and unit.ready for unit in heads):
        missing.append(_missing("the head", heads, asked))
    if (lacks := cluster.least - len(up)) > 0:
        others = [unit for unit in workers if unit not in up]
        missing.append(_missing(f"{lacks} of {cluster.least} workers", others, asked))
    ended = [index for index in range(cluster.least) if index not in {u.index for u in up}]
    if missing and len(units) <= cluster.least and (why := launcher.refusal(ended)):
        missing[-1] += f": {why}"
    head, forward = launcher.way_in()
    address = f"tcp://127.0.0.1:{head.rpartition(':')[2]}"
    nodes = tuple(
        NodeView(name=cluster.node(unit.index), alive=True, slots=cluster.slots) for unit in up
    )
    return Started(
        cluster.name, cluster.engine, cluster.folder, str(cluster.keys), address,
        "" if missing else head, forward, nodes, tuple(missing),
    )  # fmt: skip


def _lost_at(cluster: Cluster, nodes: Sequence[NodeView], lacks: int) -> float:
    """When the first of the last ``lacks`` workers fell silent; 0 if fewer have."""
    silent = sorted(
        node.silent_seconds
        for node in nodes
        if not node.alive and cluster.index(node.name) is not None
    )
    return time.time() - silent[lacks - 1] if len(silent) >= lacks else 0.0


def _last_line(cluster: Cluster, workers: Sequence[int], then: float) -> str:
    """What the first of these said last, in a log that its machine shares with this one.

    "" if it has said nothing since about ``then``: what an earlier one said is not why.
    """
    for log in map(cluster.log, workers):
        with suppress(OSError):
            said = last_said(_end_of(log))
            if said and log.stat().st_mtime >= then - _HEARD_LATER:
                return said
    return ""


def _end_of(log: Path) -> str:
    return contents(log)[-_LAST_BYTES:].decode(errors="replace").strip()


def _missing(what: str, units: Sequence[Unit], asked: Asked, lost_at: float = 0.0) -> str:
    """What is missing, what its units wait for, and since when, as far as anybody knows.

    Of ``units`` those that run have not joined the head, or are a head that does not listen.
    """
    reasons = sorted({unit.why for unit in units if unit.why and unit.state != "runs"})
    running = sorted(unit.index for unit in units if unit.state == "runs")
    if running == [HEAD]:
        reasons.append("it runs but does not answer")
    elif len(running) == 1:
        reasons.append(f"worker {running[0]} runs but has not joined the head")
    elif running:
        more = f" and {len(running) - _NAMED} more" if len(running) > _NAMED else ""
        names = ", ".join(map(str, running[:_NAMED]))
        reasons.append(f"workers {names}{more} run but have not joined the head")
    known = [unit.since for unit in units if unit.since and unit.state != "ends"]
    since = _in_words(lost_at or min(known, default=0.0)) or asked.otherwise
    return f"{what} (since {since}{''.join(f', {why}' for why in reasons)})"


def _in_words(at: float) -> str:
    """A time of today, or a date and a time; "" if it is 0."""
    then = datetime.fromtimestamp(at).astimezone()
    of_today = then.date() == datetime.now().astimezone().date()
    return then.strftime("%H:%M:%S" if of_today else "%Y-%m-%d %H:%M:%S") if at else ""


def _end(launcher: Launcher, indexes: Sequence[int], seconds: float, what: str, say: Say) -> None:
    """Tell units to end, and end those that have not after so many seconds."""

    untold = set[int]()

    def left() -> list[Unit]:
        """Those that are there; a lost one only as long as it could not be told."""
        units = [unit for unit in launcher.units() if unit.index in indexes]
        return [unit for unit in units if unit.state != "lost" or unit.index in untold]

    def told(unit: Unit) -> bool:
        """Tell it to end; False if it is to be told again, which is said once."""
        try:
            launcher.stop(unit, now=unit.state == "waits")
        except EngineFailed as failed:
            if (why := f"{failed}; it is told again") not in said:
                said.append(why)
                say(why)
            return False
        return True

    if not (there := left()):
        return
    say(f"ending {what}")
    said, deadline = list[str](), Deadline(seconds)
    untold = {unit.index for unit in there if unit.state != "ends"}
    while there:
        untold = {unit.index for unit in there if unit.index in untold and not told(unit)}
        if not (there := left()) or deadline.passed:
            break
        time.sleep(_LOOK)
    failed = list[EngineFailed]()
    for unit in there:
        try:
            launcher.stop(unit, now=True)
        except EngineFailed as fault:
            failed.append(fault)
    if failed:
        each = "; ".join(f"{fault.what}: {fault.why}" for fault in failed)
        raise EngineFailed(failed[0].engine, f"end {what}", each)
    last = Deadline(_GONE)
    while there := left():
        if last.passed:
            names = ", ".join(unit.id for unit in there)
            raise DeadlineExceeded(f"{what} to be gone ({names})", _GONE)
        time.sleep(_LOOK)
