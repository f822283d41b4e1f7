"""``artos.Cluster``: the runs of a head, from Python."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from artos.errors import Refused
from artos.protocol.run_state import OVER
from artos.protocol.views import ClusterView, RunView, Status
from artos.runs.exit_status import ExitStatus
from artos.system.closing import Closing
from artos.system.importing import stop_if_imported
from deploy.api.arguments import asked
from deploy.api.running import OnProgress, Result, RunFailed
from deploy.client import fetch
from deploy.client.head_client import HeadClient
from deploy.client.submit import Wanted, patient_status, submit
from head.records import summary_file

_LOOK = 0.5
_HERE = {"inline", "track", "on_progress"}


class Cluster(Closing):
    """A cluster, as a user of it: ``with artos.Cluster() as cluster: …``.

    ``head`` and ``keys`` are by default those of ``ARTOS_HEAD`` and ``ARTOS_KEYS``, which
    ``artos up --env`` sets. Every method raises ``NoHead``, ``WrongKeys`` or ``DeadlineExceeded``
    if the head does not answer, and ``Refused`` if it refuses.
    """

    def __init__(self, head: str | None = None, keys: str | Path | None = None) -> None:
        """Raises ``Refused`` if no head or no keys are named."""
        stop_if_imported()
        head, keys = head or os.environ.get("ARTOS_HEAD"), keys or os.environ.get("ARTOS_KEYS")
        missing = {"head (or set ARTOS_HEAD)": head, "keys (or set ARTOS_KEYS)": keys}
        if faults := [f"give {name}" for name, value in missing.items() if not value]:
            raise Refused(faults)
        assert head is not None
        assert keys is not None
        self._client = HeadClient(head, Path(keys))

    def submit(
        self,
        workload: Any,
        *,
        env: str | None = None,
        total_steps: int | None = None,
        seed: int = 1,
        deadline: float | None = None,
        run_dir: str = "",
        placement: str = "spread",
        where: Sequence[str] = (),
        packages: str | Path | None = None,
        **settings: Any,
    ) -> str:
        """Submit a run; returns its name. Arguments as for ``artos.run``.

        Those that are of runs on this machine, ``inline``, ``track`` and ``on_progress``, are
        refused; ``wait`` takes ``on_progress``. ``run_dir`` is below the head's folder of runs.
        Actors are placed on workers that have all labels in ``where``. What the run needs beside
        ARTOS is listed in ``packages``, a requirements.txt or uv.lock.
        """
        stop_if_imported()
        if faults := [f"{name}: only of runs on this machine" for name in _HERE & settings.keys()]:
            raise Refused(sorted(faults))
        given = {"env": env, "total_steps": total_steps}
        ours = {
            "seed": seed, "deadline": deadline, "run_dir": run_dir, "where": where,
            "packages": packages,
        }  # fmt: skip
        named = asked(workload, sys._getframe(1).f_globals, given | ours, settings)
        chosen = {name: value for name, value in given.items() if value is not None} | settings
        wanted = Wanted(
            named, chosen, int(seed), deadline, run_dir=str(run_dir or ""), placement=placement,
            where=tuple(where), packages=Path(packages) if packages else None,
        )  # fmt: skip
        return str(submit(self._client, wanted)["run"])

    def resume(self, run: str, *, deadline: float | None = None, **settings: Any) -> str:
        """Continue a run that is over, with some settings changed; returns its name."""
        wanted = Wanted(resume=run, settings=settings, deadline=deadline)
        return str(submit(self._client, wanted)["run"])

    def wait(self, run: str, on_progress: OnProgress | None = None) -> Result:
        """Wait until a run is over; ``folder`` of the result is one on the head.

        Raises:
            Refused: it could not begin: something in it is wrong.
            RunFailed: it failed.
        """
        last: Status | None = None
        while True:
            view = patient_status(self._client, run)
            if view.progress is not None and view.progress != last and on_progress:
                on_progress(last := view.progress)
            if view.state in OVER:
                break
            time.sleep(_LOOK)
        if view.outcome == ExitStatus.REFUSED.outcome:
            raise Refused(view.why.splitlines())
        if view.outcome not in ("done", "interrupted"):
            raise RunFailed(Path(view.folder), view.why)
        return Result(Path(view.folder), view.ending)

    def over(self, run: str) -> bool:
        """Whether a run is over."""
        return patient_status(self._client, run).state in OVER

    def status(self, run: str = "") -> RunView | ClusterView:
        """A run in full, or all nodes and runs."""
        return self._client.status(run) if run else self._client.cluster()

    def list(self) -> tuple[RunView, ...]:
        """All runs in short."""
        return self._client.list_runs()

    def scale(self, run: str, actors: int) -> int:
        """Change the number of a run's actors; returns how many take part from now on."""
        return int(self._client.scale(run, actors)["actors"])

    def set(self, run: str, settings: Mapping[str, float]) -> Mapping[str, float]:
        """Change settings of a live run, as ``{"learner.lr": 1e-4}``; returns all that were."""
        return dict(self._client.set(run, settings)["settings"])

    def stop(self, run: str) -> RunView:
        """Have a run finish and save; asked again, it ends at once."""
        return self._client.stop(run)

    def drain(self, node: str) -> Mapping[str, Any]:
        """Move the actors of a node to other nodes."""
        return self._client.drain(node)

    def undrain(self, node: str) -> Mapping[str, Any]:
        """Place actors on a drained node again, as long as actors leave it."""
        return self._client.undrain(node)

    def get(self, run: str, folder: str | Path | None = None, what: str = "all") -> Result:
        """Copy a run's files, or what is new of them, to this machine (``artos get``).

        ``what``: ``all``, ``checkpoint`` or ``curve``. The result's ``summary`` is empty while the
        run goes on.
        """
        if what not in fetch.WHAT:
            raise Refused([f"what is {what!r}: it must be one of {', '.join(fetch.WHAT)}"])
        copied = fetch.fetch(self._client, run, Path(folder or Path(run).name), what)
        found = summary_file.read(Path(copied.folder))
        return Result(Path(copied.folder), found[0] if found else {})

    def close(self) -> None:
        """Close the connection; runs go on. May be called twice."""
        self._client.close()
