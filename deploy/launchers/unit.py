"""What an engine starts on a machine: ``python -m deploy.launchers.unit FOLDER INDEX``.

A worker's unit is ``artos worker``: the engine's signals reach it without anything in between.
The head's unit has ``artos head`` as its child, which it starts again if it dies, and keeps the
number of workers.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from artos.buffer.shm_folder import KEPT_FOR, PREFIX, ShmFolder
from artos.errors import Refused
from artos.protocol.control import MOST_SHARING
from artos.runs.exit_status import ExitStatus
from artos.system.durable import write_durably
from artos.system.logging_setup import logging_to, to_stderr
from artos.system.shm import MOST, shm_root
from artos.system.usable_cpus import usable_cpus
from artos.transport.address import FILE, published_in
from artos.version import VERSION
from deploy.cli.__main__ import main as artos
from deploy.launchers.cluster import HEAD, LEAVE_SHARE, Cluster, load
from deploy.launchers.keeper import Keeper
from deploy.launchers.launcher import EngineFailed, Here, Launcher, launcher_of

_log = logging.getLogger(__name__)
_HEAD_SECONDS = 120.0
"""For the head to write its address: its machine may still be starting."""
_LOOK = 0.5
_DEATHS, _WITHIN = 5, 60.0


def worker_words(cluster: Cluster, index: int, here: Here) -> list[str]:
    """The words of ``artos`` for a worker, with what its unit has."""
    usable = len(usable_cpus())
    slots = min(usable, cluster.slots or here.slots or usable)
    stop = LEAVE_SHARE * cluster.notice
    words = [
        "worker", "--head", cluster.head or f"{FILE}{cluster.address}",
        "--keys", str(cluster.keys), "--name", cluster.node(index), "--slots", str(slots),
        "--stop-seconds", f"{stop:g}",
    ]  # fmt: skip
    if here.seconds > stop:
        words += ["--lifetime", f"{here.seconds:g}"]
    if cluster.runs_per_slot > 1:
        most = max(1, MOST_SHARING // slots)
        words += ["--runs-per-slot", str(min(cluster.runs_per_slot, most))]
    if here.joined:
        words += ["--joined", here.joined]
    if cluster.notice_at:
        words += ["--notice", cluster.notice_at]
    words += [word for label in cluster.labels for word in ("--label", label)]
    return [*words, *(("--devices", here.devices) if here.devices else ())]


def head_command(cluster: Cluster, here: Here, *, any_port: bool = False) -> list[str]:
    """The command of the head; started again on its machine, it listens at its port again."""
    listen = cluster.listen
    with suppress(Refused):
        before = published_in(cluster.address)
        if before.host == socket.gethostname() and not any_port:
            port = before.endpoint.rpartition(":")[2]
            listen = f"{listen.rpartition(':')[0]}:{port}"
    command = [
        cluster.python, "-m", "deploy.cli", "head", "--listen", listen,
        "--publish", str(cluster.address), "--keys", str(cluster.keys),
        "--runs", str(cluster.runs), "--end-file", str(cluster.end_file),
        *(("--config", str(cluster.config_file)) if cluster.config else ()),
        *(("--devices", here.devices) if here.devices else ()),
    ]  # fmt: skip
    setpriv = shutil.which("setpriv")  # without it the head outlives a unit that is killed
    return [setpriv, "--pdeathsig", "TERM", *command] if setpriv else command


def given_to(launcher: Launcher) -> Here:
    """What this unit has; runs of this process and of its children take no more memory."""
    here = launcher.here()
    if here.shm_bytes:
        os.environ[MOST] = str(here.shm_bytes)
    return here


def write_config(cluster: Cluster) -> None:
    """Write what ``head_command`` names; the folder may be one that only this machine has."""
    if cluster.config:
        write_durably(cluster.config_file, cluster.config.encode())


def await_head(cluster: Cluster) -> None:
    """Wait until the head has written its address.

    Raises:
        Refused: it is of another version, or has not written it in time.
    """
    waited_until = time.monotonic() + _HEAD_SECONDS
    while True:
        try:
            head = published_in(cluster.address)
            break
        except Refused:
            if time.monotonic() > waited_until:
                raise
            time.sleep(_LOOK)
    if head.version != VERSION:
        here = f"{cluster.python} here has {VERSION}"
        raise Refused([f"the head on {head.host} is ARTOS {head.version}, {here}"])


def keep_head(cluster: Cluster) -> int:
    """Run the head until it ends by itself or is told to; returns its exit status."""
    over, heard = threading.Event(), set[int]()
    child: subprocess.Popen[bytes] | None = None
    told: subprocess.Popen[bytes] | None = None

    def tell() -> None:
        # Once: to a head a second signal means that runs live on, and it is a person's to say.
        nonlocal told
        before, told = told, child
        if child is not None and before is not child and child.poll() is None:
            child.send_signal(signal.SIGTERM)

    def pass_on(number: int, frame: FrameType | None) -> None:
        heard.add(number)
        over.set()
        tell()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, pass_on)
    launcher = launcher_of(cluster)
    here = given_to(launcher)
    keeper = threading.Thread(
        target=Keeper(cluster, launcher).run, args=(over,), name="keeper", daemon=True
    )
    keeper.start()
    deaths: list[float] = []
    status: int = ExitStatus.DONE
    while not heard:
        # Another program may have taken its port meanwhile.
        any_port = status == ExitStatus.REFUSED
        command = head_command(cluster, here, any_port=any_port)
        child = subprocess.Popen(command, env=_without_secrets(launcher))
        if heard:
            tell()
        status = child.wait()
        now = time.monotonic()
        deaths = [*(each for each in deaths if now - each < _WITHIN), now]
        if heard or status == ExitStatus.DONE:
            break
        if len(deaths) == _DEATHS:
            _log.error("the head ended %d times within %g s: given up", _DEATHS, _WITHIN)
            break
        _log.warning("the head ended with status %d: it is started again", status)
    over.set()
    keeper.join(10.0)
    if signal.SIGUSR1 in heard and not cluster.end_file.exists():
        _start_again(cluster, launcher, here)
    return status


def _without_secrets(launcher: Launcher) -> dict[str, str]:
    """The variables of a daemon, from which users' code has them."""
    return {n: value for n, value in os.environ.items() if not n.startswith(launcher.secrets)}


def _start_again(cluster: Cluster, launcher: Launcher, here: Here) -> None:
    """Have the engine start the head anew, if it had more time than a head takes to end."""
    if 0 < here.seconds <= cluster.head_seconds:
        _log.error(
            "the head had %.0f s in all, and is not started again: ask for more than the %.0f s "
            "that it may take to end (`stop_seconds`, and a minute)",
            here.seconds,
            cluster.head_seconds,
        )
        return
    try:
        launcher.start_again()
    except EngineFailed as failed:
        _log.error("the head is not started again: %s", failed)


def forget_rows(cluster: Cluster) -> None:
    """Remove the rows that killed runs have in this machine's memory, if the cluster ends.

    Elsewhere they stay until their run goes on, which the next head of a cluster sees to.
    """
    if not cluster.end_file.exists():
        return
    runs, kept = cluster.runs.resolve(), set[Path]()
    for link in shm_root().glob(f"{PREFIX}*/{KEPT_FOR}"):
        with suppress(OSError):  # another process has just reaped it
            if (run := link.readlink()).is_relative_to(runs):
                kept.add(run)
    for run in kept:
        for folder in ShmFolder.left_by(run):
            _log.warning("removed the rows that run %s had in memory when it was killed", run.name)
            folder.remove()


def main(words: Sequence[str]) -> int:
    """Be the unit that these words name."""
    folder, index = Path(words[0]), int(words[1])
    with logging_to(to_stderr):
        try:
            cluster = load(folder)
            if index == HEAD:
                write_config(cluster)
                status = keep_head(cluster)
                forget_rows(cluster)
                return status
            if not cluster.head:
                await_head(cluster)
            launcher = launcher_of(cluster)
            command = worker_words(cluster, index, given_to(launcher))
            for name in os.environ.keys() - _without_secrets(launcher).keys():
                del os.environ[name]
        except Refused as refused:
            for fault in refused.faults:
                to_stderr(f"artos: {fault}")
            return ExitStatus.REFUSED
    # In this process: to start Python once more would cost the node half a second.
    ended = artos(command)
    with logging_to(to_stderr):
        forget_rows(cluster)
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
