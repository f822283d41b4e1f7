"""A process in a pool, told over its input what to do; answers a line for each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Self

from helpers import PATIENCE, ROOT

from artos.pool.resources import Party, Resource
from artos.system.closing import Closing

DEVICE, SECOND = Resource("cuda:0"), Resource("cuda:1")


class Peer(Closing):
    """Another process with one seat."""

    def __init__(
        self, folder: Path, workload: str, user: int = 0, group: int = 0, party: int = 0
    ) -> None:
        """``party``: the number of one of two, in which its seat is for ``SECOND``."""
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(folder), workload, str(user), str(group), str(party)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}"},
        )  # fmt: skip
        if self.hear() != "in":
            self.close()
            raise AssertionError("it did not come up")

    def tell(self, word: str) -> Self:
        """Send an order."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self

    def hear(self) -> str:
        """The next answer."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def do(self, word: str) -> str:
        """Send an order and wait for the answer."""
        return self.tell(word).hear()

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def close(self) -> None:
        """Kill it if it still lives."""
        with self.process:
            self.process.kill()


def serve(folder: Path, workload: str, user: int, group: int, party: int) -> None:
    """Do as told, as another user if one is given."""
    from artos.pool import table  # noqa: PLC0415
    from artos.pool.faults import LeaseRevoked  # noqa: PLC0415
    from artos.pool.pool import Pool  # noqa: PLC0415

    if user:
        os.setgroups([group])
        os.setgid(user)
        os.setuid(user)
    pool, lease = Pool.join([DEVICE], folder=folder), None
    if party:
        seat = pool.enter(workload, SECOND.name, party=Party(party, 2))
    else:
        seat = pool.enter(workload)
    print("in", flush=True)
    for line in sys.stdin:
        order, _, number = line.strip().partition(" ")
        answer = order
        if order == "lease":
            lease = seat.lease(float(number or 0), wait=PATIENCE)
            answer = lease.resource
        elif order == "fork":
            answer = str(os.fork() or _sleep())
        elif order == "die-inside":  # in the midst of a change, after so many stores
            stores = iter(range(int(number)))
            table.ordered = partial(_dying, stores)
            seat.ask_for_lease()
        elif order == "stop-inside":
            table.ordered = lambda: os.kill(os.getpid(), signal.SIGSTOP)
            seat.ask_for_lease()
        elif lease is not None:
            try:
                lease.close()
            except LeaseRevoked as error:
                answer = str(error)
        print(answer, flush=True)


def _sleep() -> int:
    signal.pause()
    os._exit(0)


def _dying(stores: Iterator[int]) -> None:
    if next(stores, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
