"""What ARTOS asks of an engine: to start, show and stop units, and when it will take one back.

A unit is what an engine schedules as one: the head, or one worker with its machine. Each is a unit
of its own, so that a worker comes and goes without the others, and the head stays.
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import ClassVar, Literal

import msgspec

from artos.errors import ArtosError, Refused
from artos.system.closest import closest
from deploy.launchers import engines
from deploy.launchers.cluster import Cluster, faults

State = Literal["waits", "runs", "ends", "lost"]


class Unit(msgspec.Struct, frozen=True):
    """A unit as its engine shows it."""

    index: int
    """``HEAD``, or the number of a worker, from 0."""
    id: str
    """What the engine calls it."""
    state: State = "runs"
    """It ``ends`` from when it is told to until nothing of it is left, and is ``lost`` while its
    machine cannot be asked."""
    where: str = ""
    """Its machine."""
    why: str = ""
    """What it waits for, in the engine's words."""
    since: float = 0.0
    """When it entered its state, in seconds since 1970; 0 if the engine does not say."""
    ready: bool = True
    """False if the engine knows that it runs but that the head does not listen yet, or that its
    worker is not with the head."""


class Here(msgspec.Struct, frozen=True):
    """What the engine has given to this process's unit."""

    slots: int = 0
    """CPUs; 0: it does not say, take all that may be used."""
    devices: str = ""
    """As ``--devices`` takes them."""
    seconds: float = 0.0
    """For which it still has them; 0: it does not say."""
    shm_bytes: int = 0
    """Of shared memory that runs may take in all; 0: as ``ARTOS_SHM_BYTES`` has it."""
    joined: str = ""
    """A file that the engine looks for to know that a worker is with the head; "": it does not."""


class Launcher(ABC):
    """An engine. Every call ends within a minute, or raises ``EngineFailed``."""

    inside: ClassVar[bool] = False
    """Whether head and workers have a network of their own, which this machine is not in."""
    in_order: ClassVar[bool] = False
    """Whether it can only end the worker with the highest index, as a StatefulSet does."""
    replaces: ClassVar[bool] = False
    """Whether it keeps up a number of workers without the keeper, as a StatefulSet does."""

    secrets: ClassVar[tuple[str, ...]] = ()
    """How names of variables begin by which its client shows who it is: the keeper alone has them,
    and neither daemons nor users' code."""

    ignores: ClassVar[Mapping[str, str]] = {"hosts": "it gives machines itself"}
    """Fields of a cluster that make no difference on this engine, and why."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def volume(self) -> str:
        """The volume that has the runs, as pods have their logs; "": its folder has both."""
        return ""

    @staticmethod
    def misasked(cluster: Cluster) -> list[str]:
        """What of the flags makes no sense on this engine, be it here or not."""
        return []

    @staticmethod
    def faults(cluster: Cluster) -> list[str]:
        """Why the engine cannot be asked from here for anything; nothing is made."""
        return []

    def cautions(self) -> list[str]:
        """What the engine would do otherwise than it was asked for, as far as it says so."""
        return []

    @abstractmethod
    def plan(self) -> Mapping[str, str]:
        """What would be handed to the engine, by file name, for ``--dry-run``."""

    def beside(self) -> Mapping[str, str]:
        """What else is of use in the folder of ``--dry-run DIR``, by path; not handed over here."""
        return {}

    @abstractmethod
    def start(self, indexes: Sequence[int]) -> None:
        """Ask for these units. The engine may have them wait.

        Raises:
            Refused: another cluster has the name, where only one can have it; it is as it was.
                Elsewhere clusters of one name are told apart by ``Cluster.mark``.
        """

    @abstractmethod
    def units(self) -> list[Unit]:
        """All units of this cluster of which anything is left."""

    @abstractmethod
    def stop(self, unit: Unit, *, now: bool = False) -> None:
        """Tell a unit to end by itself (SIGTERM); ``now``: end it."""

    def refusal(self, workers: Sequence[int]) -> str:
        """Why some of these that were asked for are not there, as the engine or they say it."""
        return ""

    def way_in(self) -> tuple[str, str]:
        """If it is ``inside``, the head's address there, and the command that forwards its port.

        While that command runs, the same port of this machine is the head's.
        """
        return "", ""

    def hand_out_keys(self) -> float:
        """Give units the keys that are in the cluster's folder now, if they have copies of them.

        Returns within how many seconds the head goes by them; 0: it reads that folder itself.
        """
        return 0.0

    def notices(self) -> Mapping[int, float]:
        """Seconds until the engine takes units back, by their index, where it tells us.

        Their workers hear of it from the head. Units that hear of it by a signal of their own need
        not be told here.
        """
        return {}

    def start_again(self) -> None:
        """Have the engine start this process's unit anew when it has ended, as its time is over."""
        return  # most give units as much time as they need

    def clear(self) -> None:
        """Remove what units that have ended left outside of the cluster's folder; no other's."""
        return  # most leave nothing there

    def log(self, index: int) -> str:
        """Where a unit's log is."""
        return str(self._cluster.log(index))

    def here(self) -> Here:
        """What this process's unit has: by default all of its machine."""
        return Here()


class EngineFailed(ArtosError):
    """An engine did not do what it was asked for. ``why`` is what it said."""

    def __init__(self, engine: str, what: str, why: str) -> None:
        self.engine, self.what, self.why = engine, what, why
        super().__init__(f"{engine} did not {what}: {why}")


def last_said(text: str) -> str:
    """The last line of what a unit has said, without the name that it begins with; "" if none."""
    return text.strip().rpartition("\n")[2].removeprefix("artos: ")


def names() -> list[str]:
    """The engines there are."""
    return sorted(module.name for module in pkgutil.iter_modules(engines.__path__))


def launcher_type(engine: str) -> type[Launcher]:
    """The launcher of an engine.

    Raises:
        Refused: there is no such engine.
    """
    if engine not in (known := names()):
        raise Refused(
            [f"there is no engine {engine!r}{closest(engine, known)} (have {', '.join(known)})"]
        )
    found: type[Launcher] = import_module(f"{engines.__name__}.{engine}").Engine
    return found


def launcher_of(cluster: Cluster) -> Launcher:
    """The launcher of a cluster's engine."""
    return launcher_type(cluster.engine)(cluster)


def misasked(cluster: Cluster) -> list[str]:
    """What is wrong with what was asked for, be its engine here or not.

    Raises:
        Refused: there is no such engine.
    """
    engine = launcher_type(cluster.engine)
    bare = Cluster(name="", engine="", folder="", least=0, most=0)
    ignored = [
        f"{cluster.engine}: --{field.replace('_', '-')} makes no difference: {why}"
        for field, why in engine.ignores.items()
        if getattr(cluster, field) != getattr(bare, field)
    ]
    if not (cluster.scaled or engine.replaces):
        ignored.append(
            f"{cluster.engine}: --no-scaling: nobody else would start its workers, as a "
            "StatefulSet does on Kubernetes"
        )
    return [*faults(cluster), *ignored, *engine.misasked(cluster)]
