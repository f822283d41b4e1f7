"""The runs of this machine, without a head: answers are the views that a head answers with."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
from msgspec import UNSET

from artos.errors import NoSuchRun, Refused
from artos.protocol.run_state import DONE, FAILED, RUNNING, STARTING, STOPPING, at_the_end
from artos.protocol.usage import flat
from artos.protocol.views import ClusterView, NodeView, RunFacts, RunView
from artos.runs.checkpoint import MANIFEST
from artos.runtime import control
from artos.specs.members import actor_of
from artos.system.by_age import by_age
from artos.system.child_modules import ChildModule
from artos.system.closest import closest
from artos.system.closing import Closing
from artos.system.signals import CLOSE
from artos.system.usable_cpus import usable_cpus
from artos.version import VERSION
from deploy.client.copied import live_state
from head.daemon import status_api
from head.records import summary_file
from head.records.progress_log import last_status
from head.records.reading import DamagedRecord
from head.records.run_folder import LOGS
from head.records.run_lock import is_live, owner

_CONFIG, _PROGRESS = "config.json", "progress.csv"
_LOOK = 0.1  # seconds
_HEADS = "for a cluster's runs: --head and --keys, or set ARTOS_HEAD and ARTOS_KEYS"


class LocalRuns(Closing):
    """Answers for the runs in ``root`` as a ``HeadClient`` does for those of a head.

    A run is named by the path of its folder, or by its name in ``root``.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.nothing = f"there are no runs in {root}; {_HEADS}"

    def list_runs(self) -> tuple[RunView, ...]:
        """All runs in short."""
        return self._each(line)

    def status(self, run: str) -> RunView:
        """One run in full.

        Raises:
            NoSuchRun: there is no run of that name.
        """
        found = self._find(run)
        view = _one(found)
        if is_live(found):
            return view
        said = summary_file.read(found)
        return msgspec.structs.replace(view, summary=said[0] if said else None)

    def cluster(self) -> ClusterView:
        """This machine and all its runs."""
        runs = self._each(_one)
        actors = {run.name: run.actors for run in runs if run.actors}
        memory = psutil.virtual_memory()
        node = NodeView(
            name=socket.gethostname(),
            alive=True,
            slots=len(usable_cpus()),
            actors=sum(actors.values()),
            runs=actors,
            cpu=psutil.cpu_percent(_LOOK) / 100,
            memory=memory.percent / 100,
            memory_mb=int(memory.total // 2**20),
        )
        return ClusterView(nodes=(node,), runs=runs, version=VERSION)

    def logs(self, run: str, offset: int = 0, log: str = "") -> dict[str, Any]:
        """A piece of a log of a run; a negative ``offset`` counts from the end.

        Raises:
            NoSuchRun: there is no run of that name.
            Refused: the run has no such log.
        """
        found = self._find(run)
        state = DONE if live_state(found) else _fate(found)[0]  # no more comes to a copy
        return status_api.log(found, log, offset, state)

    def scale(self, run: str, actors: int) -> dict[str, Any]:
        """Change a run's number of actors.

        Raises:
            NoSuchRun: there is no run of that name.
            NotRunning: the run is not live.
            Refused: the run says why it cannot, or is of another version of ARTOS.
            DeadlineExceeded: the run did not answer in time.
        """
        scaled = control.scale(self._find(run), actors)
        return {"actors": scaled.actors, "most": scaled.most}

    def set(self, run: str, settings: Mapping[str, float]) -> dict[str, Any]:
        """Change settings of a run; returns all that were; raises what ``scale`` raises."""
        told = control.set_settings(self._find(run), settings)
        return {"configuration": told.number, "settings": told.settings}

    def stop(self, run: str) -> RunView:
        """Have a run finish and save; a second call has it end at once. Returns it in short.

        Raises:
            NoSuchRun: there is no run of that name.
            Refused: its process cannot be signalled.
        """
        folder = self._find(run)
        if not is_live(folder):
            return line(folder)
        why = "its process is not visible from here: stop it where it was started"
        if (pid := owner(folder)) is not None:
            try:
                process = psutil.Process(pid)
                if owner(folder) == pid:  # the descriptor is not that of a later process
                    # A run process of a head leaves it to the head what SIGTERM means.
                    of_a_head = ChildModule.RUN in process.cmdline()
                    process.send_signal(CLOSE if of_a_head else signal.SIGTERM)
                return msgspec.structs.replace(line(folder), state=STOPPING)
            except psutil.NoSuchProcess:
                return line(folder)
            except psutil.AccessDenied:
                why = f"process {pid} is not yours"
        raise Refused([f"run {folder.name} cannot be stopped: {why}"])

    def _each(self, view: Callable[[Path], RunView]) -> tuple[RunView, ...]:
        """A view of each run, of the oldest first."""
        views = []
        for _, path in by_age(self._root.glob(f"*/{_CONFIG}")):
            with suppress(FileNotFoundError):  # somebody removes it just now
                views.append(view(path.parent))
        return tuple(views)

    def _find(self, name: str) -> Path:
        return folder_of(name, self._root, _HEADS)

    def close(self) -> None:
        """Do nothing: no resources are held."""


def folder_of(name: str, root: Path, elsewhere: str = "") -> Path:
    """The folder of a run: ``name`` is its path, or its name in ``root``.

    Raises:
        NoSuchRun: there is no such run; ``elsewhere`` is further advice.
    """
    for path in (Path(name), root / name):
        if name and is_run(path):
            return path
    near = closest(name, sorted(path.parent.name for path in root.glob(f"*/{_CONFIG}")))
    advice = f"; {elsewhere}" * bool(elsewhere)
    raise NoSuchRun(name, f"here, by its folder or by its name in {root}{near}{advice}")


def is_run(folder: Path) -> bool:
    """Whether the folder is a run's."""
    return (folder / _CONFIG).is_file()


def line(run: Path) -> RunView:
    """A run in short."""
    return msgspec.structs.replace(_one(run), facts=UNSET, damage=UNSET)


def _one(run: Path) -> RunView:
    """A run and its newest facts."""
    state, outcome, why = _fate(run)
    status, ending, damage = None, None, ""
    try:
        ending = summary_file.read(run) if outcome else None
        status = last_status(run / _PROGRESS)
    except DamagedRecord as error:
        damage = str(error)
    facts = RunFacts(**msgspec.structs.asdict(status)) if status else None
    if ending and "usage" in ending[0]:  # the whole bill: progress.csv may end before the run
        facts = msgspec.structs.replace(facts or RunFacts(), usage=flat(ending[1].usage))
    is_here = state in (RUNNING, STOPPING) and not live_state(run)
    waits = status.waits if status and is_here else ()
    actors = sum(actor_of(who) is not None for who in waits)
    # Only a cluster's run, whose actors are on other nodes, has the log of a replay process.
    here = actors and not any((run / LOGS).glob("replay-*.log"))
    try:
        user = run.owner()
    except KeyError:  # it has no name here, as in a container
        user = str(run.stat().st_uid)
    return RunView(
        name=run.resolve().name,
        user=user,
        state=state,
        outcome=outcome,
        why=why or damage,
        folder=str(run),
        actors=actors,
        nodes={socket.gethostname(): actors} if here else {},
        facts=facts,
        damage="" if ending else damage,
    )


def _fate(run: Path) -> tuple[str, str, str]:
    """State, outcome, and the reason of a failure."""
    if copied := live_state(run):
        return copied, "", ""
    live, told = is_live(run), control.state_told(run)
    if live and (told or is_live(run)):  # else it has ended since
        return told or STARTING, "", ""
    try:
        said = summary_file.read(run)
    except Refused as damage:
        return FAILED, "failed", str(damage)
    if told or said is None:
        saved = (run / "checkpoint" / MANIFEST).is_file()
        go_on = f"; `artos run --resume {run}` continues from its last checkpoint" if saved else ""
        return FAILED, "failed", f"its process was killed{go_on}"
    _, ending = said
    return at_the_end(ending.outcome), ending.outcome, ending.why
