"""Ray: a placement group for each unit, in which one actor holds the unit's process.

The process is the head's or a worker's daemon; ARTOS's own actors are never actors of Ray's. A
further group makes Ray's autoscaler bring a machine; a removed one lets it go. When a machine dies,
Ray places the group and its actor elsewhere, and the worker comes back under its name.

All machines share the cluster's folder, and have ARTOS and Ray in the same place.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import psutil

from artos.clock import Deadline
from artos.system.regular_file import opened
from deploy.launchers.cluster import HEAD, Cluster
from deploy.launchers.launcher import EngineFailed, Here, Launcher, State, Unit

_log = logging.getLogger(__name__)
_SECONDS = 30.0
_ANSWER_SECONDS = 2.0
_LOOK_SECONDS = 0.005
_ACCESS = "RAY_AUTH_"
_ASKED = "asked"
"""The note whose time is that at which a unit's group was asked for."""
_ENDS = ("setpriv", "--pdeathsig")
_APART = (*_ENDS, "KILL", "setsid", "--fork", "--wait", *_ENDS, "TERM")
"""Ray kills an actor's child and its process group at once with the actor. A worker's process is
neither: it is told to leave when the child has ended, and can move its own actors elsewhere."""
_FORK_SECONDS = 10.0
"""For that child to start the process."""
_RESOURCE = re.compile(r"[^=]+=\d+(\.\d+)?")
_STATES: Mapping[str, State] = {
    "PENDING": "waits", "PREPARED": "waits", "RESCHEDULING": "waits", "CREATED": "runs",
}  # fmt: skip
_MEANINGS = {
    "NO_RESOURCES": "Ray has no room for {} now",
    "INFEASIBLE": "no machine that Ray has can ever have room for {}: it waits for a larger one",
}
_SOUGHT = "Ray looks for room for {}"


class Holder:
    """The actor of a unit: starts its process, tells whether it lives, and passes signals on.

    Ray starts it again if its machine dies, and so the process.
    """

    def __init__(self, command: Sequence[str], log: str, *, apart: bool) -> None:
        ends = shutil.which("setpriv") is not None
        apart = apart and ends
        words = [*(_APART if apart else (*_ENDS, "TERM") if ends else ()), *command]
        # What Ray sets for an actor is not the daemon's, but for the GPUs that it may see and for
        # how a client shows that it may connect.
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("RAY_") or name.startswith(_ACCESS)
        }
        import ray  # noqa: PLC0415

        context = ray.get_runtime_context()
        kept["RAY_ADDRESS"] = str(context.gcs_address)
        if not context.get_accelerator_ids().get("GPU"):  # Ray leaves what was set before
            kept.pop("CUDA_VISIBLE_DEVICES", None)
        with opened(Path(log), "ab") as file:
            self._child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=kept
            )
        self._process = child = psutil.Process(self._child.pid)
        deadline = Deadline(_FORK_SECONDS)
        while apart and self._process == child and not deadline.passed:
            time.sleep(_LOOK_SECONDS)
            if self._child.poll() is not None:
                break
            self._process = next(iter(child.children()), child)

    def ended(self) -> int | None:
        """The exit status of the process, None while it lives."""
        return self._child.poll()

    def stop(self, *, now: bool) -> None:
        """Send it SIGTERM, or SIGKILL ``now``."""
        with suppress(psutil.NoSuchProcess):
            self._process.send_signal(signal.SIGKILL if now else signal.SIGTERM)


class Engine(Launcher):
    """The Ray cluster at ``RAY_ADDRESS``, or the one of this machine."""

    secrets: ClassVar[tuple[str, ...]] = (_ACCESS,)

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._bare: set[str] = set()
        """Groups that had no actor at the last look: one has none for a moment, or for good."""
        self._deaf = False
        """Whether it has been said that Ray does not tell what it drains."""

    @staticmethod
    def misasked(cluster: Cluster) -> list[str]:
        """Whether all that is asked of Ray has a number."""
        found = [
            f"ray: option {word!r}: write RESOURCE=NUMBER, such as GPU=1"
            for word in (*cluster.head_options, *cluster.worker_options)
            if not _RESOURCE.fullmatch(word)
        ]
        if not cluster.slots:
            found.append("ray: give --slots, the CPUs that each worker gets of Ray")
        return found

    @staticmethod
    def faults(cluster: Cluster) -> list[str]:
        """Whether Ray is here, and runs."""
        if find_spec("ray") is None:
            return [
                "ray: it is not installed here: pip install ray, on all machines of the cluster"
            ]
        try:
            with _asking(cluster, "answer"):
                pass
        except EngineFailed as failed:
            return [
                f"ray: {failed.why}; `ray start --head` starts one, RAY_ADDRESS names another, and "
                "one that asks for a token needs RAY_AUTH_MODE=token"
            ]
        return []

    def plan(self) -> Mapping[str, str]:
        """The placement groups."""
        units = [HEAD, *range(self._cluster.least)]
        lines = [f"{self._name(each)}: {self._bundle(each)}" for each in units]
        return {"placement-groups.txt": "\n".join([*lines, ""])}

    def start(self, indexes: Sequence[int]) -> None:
        """Ask for a group, and an actor in it, for each."""
        there = {unit.index for unit in self.units()}
        with _asking(self._cluster, "start units") as ray:
            from ray.util import placement_group  # noqa: PLC0415
            from ray.util.scheduling_strategies import (  # noqa: PLC0415
                PlacementGroupSchedulingStrategy,
            )

            for index in indexes:
                if index in there:
                    continue
                name, bundle = self._name(index), self._bundle(index)
                if (old := self._holder(index)) is not None:  # its group was removed by others
                    ray.kill(old)
                with suppress(OSError):  # it only says since when the group waits
                    self._cluster.note(index, _ASKED).touch()
                group = placement_group([bundle], "STRICT_PACK", name=name, lifetime="detached")
                log = self._cluster.log(index)
                ray.remote(Holder).options(
                    name=name, lifetime="detached", max_restarts=-1, num_cpus=bundle["CPU"],
                    num_gpus=bundle.get("GPU", 0),
                    scheduling_strategy=PlacementGroupSchedulingStrategy(group),
                ).remote(self._cluster.unit(index), str(log), apart=index != HEAD)  # fmt: skip

    def units(self) -> list[Unit]:
        """Every group that is not removed; one whose process has ended is removed now."""
        found, bare = [], set[str]()
        with _asking(self._cluster, "list its groups") as ray:
            for unit in self._groups():
                holder = self._holder(unit.index)
                if unit.state == "runs":
                    if holder is None:
                        bare.add(unit.id)
                    gone = unit.id in self._bare if holder is None else _has_ended(ray, holder)
                    if gone:
                        self._remove(unit)
                        continue
                found.append(self._dated(unit))
        self._bare = bare
        return found

    def stop(self, unit: Unit, *, now: bool = False) -> None:
        """Signal its process; ``now``: kill that, and remove actor and group."""
        with _asking(self._cluster, f"stop unit {unit.index}") as ray:
            if unit.state == "runs":
                self._signal(ray, unit, now=now)
            if now:
                for each in self._groups():
                    if each.index == unit.index:
                        self._remove(each)

    def notices(self) -> Mapping[int, float]:
        """Units on machines that Ray drains (a spot machine's notice, or ``ray drain-node``)."""
        found = {}
        with _asking(self._cluster, "say what it drains") as ray:
            try:
                worker = ray._private.worker.global_worker  # Ray Train asks there, too
                draining = worker.gcs_client.get_draining_nodes(timeout=_SECONDS)
            except (AttributeError, TypeError) as error:  # no version of Ray has to have it
                if not self._deaf:
                    self._deaf = True
                    _log.warning(
                        "Ray %s does not say what it drains (%s): workers hear of it only by a "
                        "notice of their own (--notice-at)",
                        ray.__version__,
                        error,
                    )
                return {}
            if not draining:
                return {}
            from ray.util import placement_group_table  # noqa: PLC0415

            table = placement_group_table()
            for unit in units_in(table, self._front):
                for node in table[unit.id].get("bundles_to_node_id", {}).values():
                    if (until := draining.get(node)) is not None:
                        # One that is there after its time has another clock, or was given none.
                        left = until / 1000 - time.time()
                        found[unit.index] = left if left > 0 else self._cluster.notice
        return found

    def clear(self) -> None:
        """Remove what ``start`` wrote down, and groups that it asked for before it failed."""
        for file in self._cluster.path.glob(f"unit-*.{_ASKED}"):
            file.unlink(missing_ok=True)
        with _asking(self._cluster, "remove its groups"):
            for unit in self._groups():
                self._remove(unit)

    def here(self) -> Here:
        """The CPUs of its bundle, and the GPUs that Ray has given it."""
        given = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
        return Here(self._cluster.slots, ",".join(f"cuda:{n}" for n, _ in enumerate(given)))

    def _name(self, index: int) -> str:
        return f"{self._front}{'head' if index == HEAD else index}"

    @property
    def _front(self) -> str:
        return f"artos:{self._cluster.name}:{self._cluster.mark}:"

    def _bundle(self, index: int) -> dict[str, float]:
        """What a unit asks Ray for: its options are resources, such as ``GPU=1``."""
        own = self._cluster.head_options if index == HEAD else self._cluster.worker_options
        asked = {name: float(value) for name, _, value in (word.partition("=") for word in own)}
        return {"CPU": 1.0 if index == HEAD else float(self._cluster.slots), **asked}

    def _groups(self) -> Iterator[Unit]:
        from ray.util import placement_group_table  # noqa: PLC0415

        return units_in(placement_group_table(), self._front)

    def _holder(self, index: int) -> Any:
        import ray  # noqa: PLC0415

        try:
            return ray.get_actor(self._name(index))
        except ValueError:
            return None

    def _signal(self, ray: Any, unit: Unit, *, now: bool) -> None:
        """Have its actor signal its process; one that is told ``now`` is killed after that anyway.

        Raises:
            EngineFailed, RayError: it has not been told, and is to be told again.
        """
        if (holder := self._holder(unit.index)) is None:
            if not now:
                raise EngineFailed("ray", f"stop unit {unit.index}", "its actor is not there")
            return
        # One that is not told now goes on for as long as a worker may take to leave.
        seconds = _SECONDS if now else _ANSWER_SECONDS
        try:
            ray.get(holder.stop.remote(now=now), timeout=seconds)
        except ray.exceptions.GetTimeoutError:
            return  # it is told as soon as it answers
        except ray.exceptions.RayError:
            if not now:
                raise

    def _dated(self, unit: Unit) -> Unit:
        """One that waits, and has not run since its group was asked for, does so since then."""
        if unit.state == "waits":
            with suppress(OSError):
                asked_at = self._cluster.note(unit.index, _ASKED).stat().st_mtime
                log = self._cluster.log(unit.index)
                if not log.exists() or log.stat().st_mtime < asked_at:
                    return msgspec.structs.replace(unit, since=asked_at)
        return unit

    def _remove(self, unit: Unit) -> None:
        import ray  # noqa: PLC0415
        from ray.util import remove_placement_group  # noqa: PLC0415
        from ray.util.placement_group import PlacementGroup  # noqa: PLC0415

        if (holder := self._holder(unit.index)) is not None:
            ray.kill(holder)
        remove_placement_group(PlacementGroup(ray.PlacementGroupID(bytes.fromhex(unit.id))))


def units_in(table: Mapping[str, Mapping[str, Any]], front: str) -> Iterator[Unit]:
    """The units in Ray's table of groups whose names begin with ``front``."""
    for group, about in table.items():
        name, state = about["name"], _STATES.get(about["state"])
        if state is not None and name.startswith(front):
            tail = name.removeprefix(front)
            why = _in_words(about) if state == "waits" else ""
            yield Unit(HEAD if tail == "head" else int(tail), group, state, why=why)


def _in_words(about: Mapping[str, Any]) -> str:
    """What a group waits for; between two attempts Ray says of the last one why it failed."""
    asked = ", ".join(
        f"{name}={number:g}"
        for bundle in about["bundles"].values()
        for name, number in bundle.items()
    )
    return _MEANINGS.get(about["stats"]["scheduling_state"], _SOUGHT).format(asked)


def _has_ended(ray: Any, holder: Any) -> bool:
    try:
        return ray.get(holder.ended.remote(), timeout=_ANSWER_SECONDS) is not None
    except ray.exceptions.RayError:
        return False  # it is started again, or its machine has just died


@contextmanager
def _asking(cluster: Cluster, what: str) -> Iterator[Any]:
    """Ray, connected to its cluster.

    Raises:
        EngineFailed: no Ray cluster can be reached, or it did not do what the block asks for.
    """
    import ray  # noqa: PLC0415

    try:
        if not ray.is_initialized():
            ray.init(
                address=os.environ.get("RAY_ADDRESS") or "auto",
                namespace=f"artos:{cluster.name}", log_to_driver=False,
                logging_level=logging.ERROR,
            )  # fmt: skip
        yield ray
    except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError) as error:
        raise EngineFailed("ray", what, str(error)) from error
