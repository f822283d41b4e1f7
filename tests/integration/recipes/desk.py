"""This machine: head and workers are processes of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from deploy.launchers import processes
from deploy.launchers.cluster import HEAD, Cluster
from deploy.launchers.launcher import Launcher, Unit


class Engine(Launcher):
    """Processes, by the files in the cluster's folder."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._all = (HEAD, *range(2 * cluster.most))

    def plan(self) -> Mapping[str, str]:
        """The command of each unit."""
        units = (HEAD, *range(self._cluster.least))
        lines = [shlex.join(self._cluster.unit(index)) for index in units]
        return {"units.sh": "\n".join([*lines, ""])}

    def start(self, indexes: Sequence[int]) -> None:
        """Start them at once."""
        for index in indexes:
            processes.start(self._cluster, index)

    def units(self) -> list[Unit]:
        """Those that live."""
        return [unit for index in self._all for unit in processes.found(self._cluster, index)]

    def stop(self, unit: Unit, *, now: bool = False) -> None:
        """Send it a signal."""
        processes.stop(unit, now=now)

    def clear(self) -> None:
        """Remove the files."""
        for index in self._all:
            processes.clear(self._cluster, index)
