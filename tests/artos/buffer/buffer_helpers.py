"""What the buffer tests share: small blocks, a plain history of episodes, processes, a tripwire."""

from __future__ import annotations

import itertools
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec, Consumer
from artos.buffer.shm_folder import ShmFolder
from artos.specs.keys import VERSION_KEY, DataKey, OnFull

_number = itertools.count()

FRAME = (3, 2)
KEYS = (
    DataKey("frames", FRAME, "uint8", stack=3),
    DataKey("ages", (), "uint8"),
    DataKey("rewards", (), "float64"),
    DataKey("terminations", (), "bool"),
    DataKey("truncations", (), "bool"),
    DataKey("identity", (2,), "int64"),
    DataKey("global", (2,), "float32", per_env=False),
)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """For hypothesis, whose examples each need a folder of their own."""
    folder = ShmFolder.create("test")
    try:
        yield folder.path
    finally:
        folder.remove()


def new_block(
    path: Path,
    keys: Sequence[DataKey],
    capacity: int,
    *,
    actor: int = 0,
    envs: int = 1,
    consumers: tuple[Consumer, ...] = (),
    on_full: OnFull = "overwrite",
) -> ActorBlock:
    """A block in a file of its own."""
    spec = BlockSpec(actor, tuple(keys), capacity, envs, consumers, on_full)
    return ActorBlock.create(path / f"block{next(_number)}", spec)


def block_of_stacks(path: Path) -> ActorBlock:
    """Two episodes of two rows, whose frames (10 to 13) are stacked by two."""
    keys = (DataKey("frames", (), "int64", stack=2), DataKey("ages", (), "uint8"))
    block = new_block(path, keys, 8)
    block.allocate(4)
    block.arrays["frames"][:4, 0] = (10, 11, 12, 13)
    block.arrays["ages"][:4, 0] = (0, 1, 0, 1)
    block.commit(4)
    return block


class History:
    """Everything an actor ever wrote, as plain lists: what the buffer is compared with.

    If the block has the key ``valid``, the row after each end holds the final observation.
    """

    def __init__(self, block: ActorBlock, end_chance: float = 0.2, seed: int = 0) -> None:
        self.block, self.actor, self.envs = block, block.spec.actor, block.spec.envs
        self.rows: list[dict[str, Any]] = []
        self._rng = np.random.default_rng([seed, self.actor])
        self._age = [0] * self.envs
        self._end_chance = end_chance
        self._marks = "valid" in block.headers
        self._over = np.zeros(self.envs, bool)

    def write(self, count: int, version: int = 0) -> None:
        """Write and commit ``count`` rows of made-up experience."""
        start = self.block.allocate(count)
        assert start == len(self.rows)
        for step in range(start, start + count):
            row = self._row(step, version)
            self.rows.append(row)
            for name, value in row.items():
                self.block.arrays[name][self.block.index(step)] = value
        self.block.commit(start + count)

    def _row(self, step: int, version: int) -> dict[str, Any]:
        ends = self._rng.random((2, self.envs)) < self._end_chance / 2
        if self._marks:
            ends[:, self._over] = False
        row = {
            "frames": self._rng.integers(1, 255, (self.envs, *FRAME), np.uint8),
            "ages": np.array(self._age, np.uint8),
            "rewards": self._rng.normal(size=self.envs),
            "terminations": ends[0],
            "truncations": ends[1],
            "identity": np.array([(self.actor * 10_000 + step, env) for env in range(self.envs)]),
            "global": np.array([step, self.actor], np.float32),
            VERSION_KEY: version,
            **({"valid": ~self._over} if self._marks else {}),
        }
        self._over, last = ends.any(axis=0), self._over
        over = last if self._marks else self._over
        self._age = [0 if over[e] else min(255, self._age[e] + 1) for e in range(self.envs)]
        return row

    def value(self, name: str, step: int, env: int, padding: str = "zero") -> Any:
        """What reading one value must give, stacks rebuilt as an environment would show them."""
        if name != "frames":
            value = self.rows[step][name]
            return value if name in ("global", VERSION_KEY) else value[env]
        frames = []
        for _ in range(3):
            frames.insert(0, self.rows[step]["frames"][env])
            if self.rows[step]["ages"][env] == 0:
                first = np.zeros(FRAME, np.uint8) if padding == "zero" else frames[0]
                return np.stack([first] * (3 - len(frames)) + frames)
            step -= 1
        return np.stack(frames)


class Killed(BaseException):
    """Stands for SIGKILL between two stores."""


class Fuse:
    """Burns by one with every store; at zero the writer is killed before it."""

    def __init__(self, stores: int) -> None:
        self.left = stores

    def burn(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1


class Tripwire:
    """Words in shared memory that burn a fuse with every store."""

    def __init__(self, words: Any, fuse: Fuse) -> None:
        self._words, self._fuse = words, fuse

    def __getitem__(self, at: Any) -> Any:
        return self._words[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        self._fuse.burn()
        self._words[at] = value


def arm(block: ActorBlock, fuse: Fuse) -> None:
    """Kill whoever uses this handle once the fuse has burnt down."""
    block._preamble = Tripwire(block._preamble, fuse)
    for header in block.headers.values():
        header._words = Tripwire(header._words, fuse)
    block.arrays = {name: Tripwire(array, fuse) for name, array in block.arrays.items()}


class Child:
    """A forked process that runs ``work``; exit status 0 means it returned."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                work()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        self.status: int | None = None

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.join()

    def join(self) -> int:
        """Wait for its end; 0 means it returned, -9 that it was killed."""
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
