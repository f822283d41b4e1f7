"""Where the runs are that are shown: folders on this machine, or a head."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, TypeVar

import msgspec

from artos.errors import ArtosError, NoHead, NoSuchRun, Refused, StillCopied
from artos.pool.view import PoolView, read_pool
from artos.protocol.views import ClusterView, RunView
from artos.system.closing import Closing
from deploy.client.copied import copied_at, is_whole
from deploy.client.copies import copies_of
from deploy.client.fetch import NUMBERS, RECORDS, fetch, progress
from deploy.client.head_client import HeadClient
from deploy.dashboard.copying import Copying
from deploy.dashboard.recent import Recent
from deploy.local.local_runs import LocalRuns, is_run, line
from head.records.reading import DamagedRecord

_LOOK, _COPY = 1.0, 2.0
"""Seconds for which a view, and what was copied from a head, is new enough."""
_PATIENCE = 3.0
"""Seconds for which who asks waits for a copy."""
_BYTES, _UNKNOWN = re.compile("[\ud800-\udfff]"), "\ufffd"
"""What of a name is no text, and what a browser has in its place."""
T = TypeVar("T")


class Source(Protocol):
    """Answers about runs. All raise NoSuchRun where a run is not among them."""

    @property
    def kept(self) -> Kept | None:
        """What can be answered while a head is away; None where none has to be asked."""
        ...

    def cluster(self) -> ClusterView:
        """Nodes and runs."""
        ...

    def run(self, name: str) -> RunView:
        """A run in full."""
        ...

    def folder(self, name: str, what: str = RECORDS) -> Path:
        """A folder on this machine with the run's records, or as much as curves are drawn of."""
        ...

    def pool(self) -> PoolView | None:
        """Who holds this machine's devices and slots; None if this machine has no part in it."""
        ...

    def close(self) -> None:
        """Give back what is held; twice is fine."""
        ...


class Folders(Closing):
    """The runs in a folder, or those in the ``named`` folders only.

    Raises:
        Refused: two of these have one name.
    """

    kept = None

    def __init__(self, root: Path, named: Sequence[Path] = ()) -> None:
        self._root, self._local = root, LocalRuns(root)
        self._named = {folder.name or folder.resolve().name: folder for folder in named}
        if len(self._named) < len(named):
            raise Refused(["two of these runs have one name: show them one after the other"])
        self._recent = Recent(_LOOK)

    def cluster(self) -> ClusterView:
        """This machine and the runs."""
        return self._recent.get("", self._cluster)

    def run(self, name: str) -> RunView:
        """A run in full."""
        folder = self.folder(name)

        def ask() -> RunView:
            try:
                return _called(name, self._local.status(str(folder)))
            except DamagedRecord:  # in short it says so
                return _called(name, line(folder))

        return self._recent.get(name, ask)

    def folder(self, name: str, what: str = RECORDS) -> Path:
        """The run's folder; one whose name is no text is also known by what is shown of it."""
        if self._named:
            folder = self._named.get(name)
        else:
            folder = self._root / name if Path(name).name == name else None
        if folder is not None and is_run(folder):
            return folder
        if _UNKNOWN in name:
            every = self._named or {path.name: path for path in self._root.glob("*")}
            alike = [path for each, path in every.items() if _BYTES.sub(_UNKNOWN, each) == name]
            if len(alike) == 1 and is_run(alike[0]):
                return alike[0]
        raise NoSuchRun(name, "here")

    def pool(self) -> PoolView | None:
        """Who holds devices and slots; None if that cannot be read."""
        try:
            return self._recent.get("a pool", read_pool)
        except (ArtosError, OSError):
            return None

    def _cluster(self) -> ClusterView:
        if not self._named:
            found = self._local.cluster()
            runs = [_called(Path(run.folder).name, run) for run in found.runs]
        else:
            found = LocalRuns(self._root / "none but the named ones").cluster()
            runs = []
            for name in self._named:
                with suppress(NoSuchRun, FileNotFoundError):  # it has been removed since
                    runs.append(self.run(name))
            (node,) = found.nodes
            actors = {run.name: run.actors for run in runs if run.actors}
            node = msgspec.structs.replace(node, actors=sum(actors.values()), runs=actors)
            found = msgspec.structs.replace(found, nodes=(node,))
        return msgspec.structs.replace(found, runs=tuple(runs))

    def close(self) -> None:
        """Do nothing: no resources are held."""


def _called(name: str, run: RunView) -> RunView:
    """A folder that is a link is named as it is found, not as what it leads to."""
    return msgspec.structs.replace(run, name=name)


class Kept(Closing):
    """What is known of a head's runs while it is away: what it said last, and what was copied."""

    kept = None

    def __init__(self, copies: Path) -> None:
        self._copies = {what: Folders(copies / what) for what in (NUMBERS, RECORDS)}
        self._last: tuple[float, ClusterView] | None = None

    def remember(self, cluster: ClusterView) -> ClusterView:
        """Keep what the head says now, which is returned."""
        self._last = time.time(), cluster
        return cluster

    def cluster(self) -> ClusterView:
        """What the head said last; before it has said anything, the runs that were copied."""
        if self._last:
            return self._last[1]
        runs = self._copies[RECORDS].cluster().runs
        runs = tuple(run for run in runs if is_whole(Path(run.folder)))
        if not runs:
            raise Refused(["nothing was copied"])
        return ClusterView(runs=runs)

    def run(self, name: str) -> RunView:
        """A run as it was when it was copied, or when the head named it last."""
        if self._copy(name, RECORDS):
            return self._copies[RECORDS].run(name)
        found = next((run for run in self.cluster().runs if run.name == name), None)
        if found is None:
            raise NoSuchRun(name, "among what is known of the head")
        return found

    def folder(self, name: str, what: str = RECORDS) -> Path:
        """The newest copy that has all that is asked for."""
        copies = [copy for each in {what, RECORDS} if (copy := self._copy(name, each))]
        if not copies:
            raise Refused([f"the records of run {name} were not copied before the head was away"])
        return max(copies, key=copied_at)

    def age(self, name: str = "") -> float:
        """Seconds since a run, or all, were as they are told here."""
        copy = self._copy(name, RECORDS) if name else None
        if copy is None and self._last:
            return time.time() - self._last[0]
        copies = [copy] if copy else [Path(run.folder) for run in self.cluster().runs]
        return time.time() - max(map(copied_at, copies))

    def _copy(self, name: str, what: str) -> Path | None:
        with suppress(NoSuchRun):
            copy = self._copies[what].folder(name)
            return copy if is_whole(copy) else None
        return None

    def pool(self) -> PoolView | None:
        """None: the devices of a cluster are on other machines."""
        return None

    def close(self) -> None:
        """Do nothing: no resources are held."""


class OfHead(Closing):
    """The runs of a head, by its views; the records of a run are copied once it is looked at.

    ``connect`` makes a connection; each takes one question at a time, so a copy has its own.
    """

    def __init__(
        self, head: str, connect: Callable[[], HeadClient], patience: float = _PATIENCE
    ) -> None:
        self._connect, self._lock, self._closed = connect, Lock(), False
        self._idle = [connect()]
        self._copies = copies_of(head)
        self.kept = Kept(self._copies)
        self._recent, self._copying = Recent(_LOOK), Copying(_COPY, patience)

    def cluster(self) -> ClusterView:
        """The head's nodes and runs."""
        return self._recent.get("", lambda: self.kept.remember(self._ask(HeadClient.cluster)))

    def run(self, name: str) -> RunView:
        """A run in full."""
        return self._recent.get(name, lambda: self._ask(lambda client: client.status(name)))

    def folder(self, name: str, what: str = RECORDS) -> Path:
        """A copy of the run's records, or of what is new of them.

        Raises:
            StillCopied: there is more than could be copied so soon; it goes on.
        """
        view = self.run(name)  # its name is the head's word for it, not a browser's
        target = self._copies / what / view.name

        def copy(client: HeadClient) -> Any:
            return fetch(client, view.name, target, what, check=False)

        def told(client: HeadClient) -> tuple[int, int]:
            return progress(client, view.name, target, what)

        copied = view.name, what
        if not self._copying.is_done(copied, lambda: self._ask(copy)):
            raise StillCopied(view.name, *self._recent.get(copied, lambda: self._ask(told)))
        return target

    def pool(self) -> PoolView | None:
        """None: the devices of a cluster are on other machines."""
        return None

    def _ask(self, question: Callable[[HeadClient], T]) -> T:
        with self._lock:
            client = self._idle.pop() if self._idle else None
        client = client or self._connect()
        goes_on = True
        try:
            return question(client)
        except (Refused, NoHead):
            raise
        except BaseException:
            goes_on = False  # it got no answer, keeps what it has asked, and asks it yet
            raise
        finally:
            with self._lock:
                if goes_on := goes_on and not self._closed:
                    self._idle.append(client)
            if not goes_on:
                client.close()

    def close(self) -> None:
        """Close the connections, those in use once they are not; twice is fine."""
        with self._lock:
            self._closed, idle = True, self._idle
            self._idle = []
        self._copying.close()
        for client in idle:
            client.close()
