"""A cluster that an engine carries: what was asked for, and the folder that its units share."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from time import time

import msgspec
from xxhash import xxh3_64_hexdigest

from artos.errors import Refused
from artos.protocol.control import sharing_faults
from artos.specs.fields import NAME, label_faults
from artos.system import private_folder
from artos.system.closest import closest
from artos.system.durable import write_durably
from artos.system.regular_file import contents
from artos.version import VERSION
from workers.daemon import notices

HEAD = -1
"""The index of the head's unit; workers count from 0."""
VARIABLE = "ARTOS_CLUSTERS"
"""Names the folder in which clusters have theirs; on most engines all machines must share it."""
RECORD = "cluster.json"
LEAVE_SHARE = 0.9
"""Of the time until a machine is taken back, in which its worker leaves: it also has to end."""
_HEAD_MARGIN = 60.0
"""Seconds that a head has for ending itself, after its runs."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster as ``artos up`` was asked for it."""

    name: str
    engine: str
    folder: str
    least: int
    """Workers that there always are, as far as the engine gives them."""
    most: int
    """Workers that there are when runs have a use for them."""
    head_options: tuple[str, ...] = ()
    """Words for the engine about the head's unit, such as ``--partition=long``."""
    worker_options: tuple[str, ...] = ()
    """The same about workers."""
    hosts: tuple[str, ...] = ()
    """Machines, where the engine is told which."""
    slots: int = 0
    """CPUs of a worker; 0: all that its unit has."""
    runs_per_slot: int = 1
    """Runs that may be on a worker for each of its slots; their actors take turns."""
    labels: tuple[str, ...] = ()
    """What its workers have, for runs that ask for it."""
    notice: float = 90.0
    """Seconds that a worker has for leaving, from the engine's notice on."""
    config: str = ""
    """What ``head.toml`` says: admins, accounts, quotas and other options of the head."""
    listen: str = "tcp://0.0.0.0:0"
    """Where the head listens; at port 0, at one that is free."""
    head: str = ""
    """Where workers find the head, if not by the file in which it says so."""
    python: str = sys.executable
    """The interpreter on every machine."""
    version: str = VERSION
    notice_at: str = ""
    """A file or URL in which workers see that their machine is taken back, beside the engine's
    own notice."""
    scaled: bool = True
    """Whether the keeper sets the number of workers; else somebody else does, as an autoscaler."""

    @property
    def path(self) -> Path:
        """The folder that its units share."""
        return Path(self.folder)

    @property
    def keys(self) -> Path:
        """The folder of its keys."""
        return self.path / "keys"

    @property
    def mark(self) -> str:
        """Tells it from others of its name, wherever they are started: a sum of its head's key.

        "" as long as it has no keys.
        """
        with suppress(FileNotFoundError):
            return xxh3_64_hexdigest(contents(self.keys / "head.key"))[:8]
        return ""

    @property
    def runs(self) -> Path:
        """The folder of its runs, which stays when the cluster is gone."""
        return self.path / "runs"

    @property
    def config_file(self) -> Path:
        """Where the head's unit writes its ``config``."""
        return self.path / "head.toml"

    @property
    def address(self) -> Path:
        """The file into which the head writes where it listens."""
        return self.path / "head.json"

    @property
    def logs(self) -> Path:
        """The folder of its units' logs."""
        return self.path / "logs"

    def log(self, index: int) -> Path:
        """The log of a unit, where machines share the folder."""
        return self.logs / ("head.log" if index == HEAD else f"worker-{index}.log")

    def note(self, index: int, kind: str) -> Path:
        """What an engine notes of a unit, such as its ``pid``, where machines share the folder."""
        return self.path / f"unit-{'head' if index == HEAD else index}.{kind}"

    @property
    def end_file(self) -> Path:
        """There from when it is taken down: until then runs outlive a head that is told to stop."""
        return self.path / "ends"

    @property
    def head_seconds(self) -> float:
        """For which its head may take to end once it is told to, as its runs save."""
        import tomllib  # noqa: PLC0415

        from head.daemon.options import STOP_SECONDS  # noqa: PLC0415

        given = tomllib.loads(self.config).get("stop_seconds", STOP_SECONDS)
        return float(given) + _HEAD_MARGIN

    def node(self, index: int) -> str:
        """The name of a worker; one that is started again comes back under its name."""
        return f"{self.name}-{index}"

    def index(self, node: str) -> int | None:
        """The index of a node, None if it is none of this cluster's workers."""
        tail = node.rpartition("-")[2]
        index = int(tail) if tail.isdecimal() else HEAD
        return index if index != HEAD and node == self.node(index) else None

    def unit(self, index: int) -> tuple[str, ...]:
        """The command that is a unit's process on its machine."""
        return (self.python, "-m", "deploy.launchers.unit", self.folder, str(index))

    @property
    def asked_at(self) -> float:
        """When it was asked for, in seconds since 1970; now, if it has no record."""
        with suppress(OSError):
            return (self.path / RECORD).stat().st_mtime
        return time()

    def record(self) -> bytes:
        """What ``load`` reads."""
        return msgspec.json.format(msgspec.json.encode(self))

    def save(self) -> None:
        """Write it into its folder, which is made if need be.

        Raises:
            Refused: the folder cannot be used.
        """
        try:
            for each in (self.path, self.logs, self.runs):
                private_folder.keep(each)
            write_durably(self.path / RECORD, self.record())
        except OSError as error:
            raise Refused([f"{self.folder} cannot hold a cluster: {error}"]) from error

    def forget(self) -> None:
        """Remove what only a living cluster needs; runs and logs stay."""
        private_folder.remove(self.keys)
        self.address.unlink(missing_ok=True)
        self.end_file.unlink(missing_ok=True)
        self.config_file.unlink(missing_ok=True)
        (self.path / RECORD).unlink(missing_ok=True)


def faults(cluster: Cluster) -> list[str]:
    """What is wrong with what was asked for, whatever the engine."""
    found = []
    if not NAME.fullmatch(cluster.name) or len(cluster.name) > 40:
        found.append(f"--name {cluster.name!r}: at most 40 letters, digits, dots and dashes")
    if not 0 <= cluster.least <= cluster.most or not cluster.most:
        found.append(
            f"--nodes {cluster.least}..{cluster.most}: write N or MIN..MAX, with a MAX of 1 or more"
        )
    if cluster.notice < 1:
        found.append(f"--notice {cluster.notice:g}: it must be one second or more")
    if why := notices.fault(cluster.notice_at):
        found.append(why)
    found += sharing_faults(max(1, cluster.slots), cluster.runs_per_slot)
    return [*found, *label_faults(cluster.labels)]


def clusters() -> Path:
    """The folder in which clusters have theirs."""
    return Path(os.environ.get(VARIABLE) or Path.home() / ".artos" / "clusters").absolute()


def known() -> list[str]:
    """The names of the clusters that were started and not yet taken down."""
    return sorted(path.parent.name for path in clusters().glob(f"*/{RECORD}"))


def load(folder: Path) -> Cluster:
    """The cluster of a folder.

    Raises:
        Refused: there is none, or its record is damaged.
    """
    try:
        found = msgspec.json.decode(contents(folder / RECORD), type=Cluster)
        return msgspec.structs.replace(found, folder=str(folder.absolute()))
    except FileNotFoundError:
        hint = closest(folder.name, known()) or f"; there are: {', '.join(known()) or 'none'}"
        raise Refused([f"there is no cluster {folder.name!r} in {folder.parent}{hint}"]) from None
    except (OSError, msgspec.DecodeError) as error:
        then = "end what it started by its engine's own means, then remove that file"
        raise Refused([f"{folder / RECORD} is no record of a cluster ({error}): {then}"]) from error
