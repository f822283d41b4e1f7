"""Processes that damage a pool's table and use it; ``damaging.py FIRST END`` is one for each seed.

It is a process of its own, as this forks twice for a seed, and pytest's memory takes long to fork.
Prints a line of JSON for each seed: how both ended, and whether the table is gone.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from helpers import PATIENCE

from artos.errors import ArtosError
from artos.pool import records as r
from artos.pool import table
from artos.pool.folder import pool_folder
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.pool.view import clean, read_pool

DEVICE, SLOT = Resource("cpu:a", "device"), Resource("s0", "slot")
REGIONS = {
    "words": (0, r.MUTEX_AT),
    "mutex": (r.MUTEX_AT, r.MUTEX_AT + 64),
    "page": (16, 4096),
    "records": (4096, r.LEASE_WORDS_START),
    "live": (r.LEASE_WORDS_START, r.LEASE_WORDS_START + 256),
    "journal": (r.JOURNAL_START, r.JOURNAL_START + 512),
    **{
        of.__name__: (r.OFFSETS[of], r.OFFSETS[of] + 2 * of.STRUCT.size)
        for of in (r.KindRecord, r.ResourceRecord, r.MemberRecord, r.AccountRecord, r.SeatRecord)
    },
}


def flip(place: Path, chance: random.Random) -> None:
    """Write nonsense somewhere."""
    low, high = REGIONS[chance.choice([*REGIONS])]
    with (place / "table").open("r+b", buffering=0) as file:
        for _ in range(chance.choice([1, 3, 20])):
            file.seek(chance.randrange(low, high))
            file.write(bytes([chance.choice([0, 1, 2, 255, chance.randrange(256)])]))


def use_damaged(place: Path, seed: int) -> None:
    """Be in a pool, damage its table, and use it, or be killed."""
    chance = random.Random(seed)
    pool = Pool.join([DEVICE, SLOT])
    seats = pool.enter("x", "device"), pool.enter("y", "slot")
    lease = seats[0].lease(1.0)
    if chance.random() < 0.3:  # as if a process had died in the midst of a change
        pool.table._words[r.JOURNAL_AT // 8] = chance.choice([1, 8, 100, 1 << 40, -1])
    flip(place, chance)
    if chance.random() < 0.3:
        os.kill(os.getpid(), signal.SIGKILL)
    if chance.random() < 0.5:
        lease.close()
        for seat in seats:
            seat.lease(1.0, wait=0.5).close()
    read_pool()
    pool.close()


def told(act: Callable[[], object]) -> str:
    """How this ends in a process of its own: in peace, with words, or how else."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        said = "in peace"
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(PATIENCE))
        try:
            act()
        except ArtosError:
            said = "words"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        said = lines.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return said if status == 0 else signal.Signals(-status).name


def main(first: int, end: int) -> None:
    """Damage a table for each seed, and clean up."""
    table._LOCK_SECONDS = 0.3
    place = pool_folder()
    for seed in range(first, end):
        used = told(lambda seed=seed: use_damaged(place, seed))  # type: ignore[misc]
        print(json.dumps([seed, used, told(clean), place.exists()]), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
