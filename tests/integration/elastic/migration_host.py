"""A worker on a host of its own: network, shared memory, processes and, if wanted, another clock.

Run as a script it obeys lines on its standard input, ``[method, *arguments]`` as JSON, and answers
each with one line; it ends, with everything it started, when that input does.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
from elastic import state, until
from helpers import ROOT, SUPPORT
from stage import PATIENCE, Rows, Stage, mapped

from artos.buffer.actor_block import ActorBlock
from artos.protocol.invocations import Invoke, encode
from artos.specs.members import ACTORS, Member
from artos.system.child import Child
from workers.actors.spawners.clones import Clones
from workers.actors.spawners.spawner import Place
from workers.checkpoint.bundle import Home, belongings, pack, unpack
from workers.checkpoint.checkpointer import Checkpointer, Progress
from workers.checkpoint.criu.driver import Criu, criu_here
from workers.checkpoint.images import ImageStore

_APART = ("unshare", "--net", "--mount", "--mount-proc", "--pid", "--fork", "--kill-child=KILL")
_SHM = "/dev/shm"
_NAME = "actor-0"
_ACTOR = 0


class Host:
    """The other end of such a script; leaving the context ends the host."""

    def __init__(self, name: str, folder: Path, later: int = 0) -> None:
        """Its clock since boot is ``later`` seconds ahead of ours."""
        self.name, self._log = name, folder / f"{name}.log"
        time = ("--time", "--monotonic", str(later)) if later else ()
        path = os.pathsep.join(map(str, (ROOT, SUPPORT)))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*_APART, *time, sys.executable, __file__, str(folder / name)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0,
                env={**os.environ, "PYTHONPATH": path, "ARTOS_SHM": _SHM},
            )  # fmt: skip

    def ask(self, *line: object) -> Any:
        """Have it do something; what it answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(msgspec.json.encode(line) + b"\n")
        heard, _, _ = select.select([self._process.stdout], [], [], 2 * PATIENCE)
        answer = self._process.stdout.readline() if heard else b""
        assert answer, f"host {self.name} did not do {line}: {self._log.read_text()}"
        return msgspec.json.decode(answer)

    def rows(self) -> Rows:
        """Every byte in the actor's block, by key."""
        return msgspec.convert(self.ask("rows"), Rows)

    def end(self) -> None:
        """Let it end; nothing is left of it."""
        with self._process:  # closes its input and output, then waits
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()


class Worker(Stage):
    """What runs there: a run's memory, at most one actor, and images."""

    def __init__(self, logs: Path) -> None:
        logs.mkdir()
        super().__init__("CartPole-v1", logs)
        criu = criu_here()
        assert isinstance(criu, Criu)
        self._criu, self._store = criu, ImageStore(Path(_SHM, "images"), 4 << 30)
        self._place = Place(self.node.site, self.node.plan_file)
        self._checkpointer = Checkpointer(
            self.node.site, criu, self._store, lambda slot: (), self._progress, gives_back=False
        )
        self._home = Home(self.site(_ACTOR), str(self.log(_ACTOR)))
        self._actor: Child | None = None
        self._bind = True

    def _progress(self, actor: int) -> Progress:
        return Progress(self.node.blocks[actor].written, self.node.weights.version)

    def start(self) -> str:
        """Make the actor, a clone of a template; the folder of the run's memory."""
        clones = Clones(self._place, self.template, self._criu, self._checkpointer, lambda s: (), 1)
        try:
            clones.request(Member(ACTORS, _ACTOR), None)
            clones.poll()
            clones.heard(self.ready(self.template))
            until("a clone", lambda: self._is_born(clones))
        finally:
            clones.close()
        self.ready(Member(ACTORS, _ACTOR))
        return self.node.site.folder

    def _is_born(self, clones: Clones) -> bool:
        for birth in clones.poll():
            self._actor = self.keep(birth.child)
        return self._actor is not None

    def act(self, stop: int) -> None:
        """Sample up to row ``stop``, once the actor is fast asleep."""
        assert self._actor is not None
        pid = self._actor.pid
        until("the actor to sleep", lambda: state(pid) == "S")
        call = Invoke(stop, "actors.sample", "sample", stop=stop, bind=self._bind)
        self.node.board.down(Member(ACTORS, _ACTOR)).put(encode(call))
        self._bind = False
        self.done(_ACTOR)

    def rows(self) -> Rows:
        """What was sampled so far."""
        return self.written(_ACTOR)

    def leave(self, bundle: str) -> None:
        """Checkpoint the actor, and pack it."""
        assert self._actor is not None
        shot = self._checkpointer.take(self._actor.pid, _NAME, _ACTOR)
        shot.operation.wait(PATIENCE)
        assert self._checkpointer.is_done(shot)
        self._actor.end(PATIENCE)
        self._actor = None
        pack(shot.image, self._home, Path(bundle))
        self._checkpointer.drop(shot.image)
        self.node.weights.unpin(_ACTOR)

    def arrive(self, bundle: str) -> str:
        """Unpack an actor and restore it; what it has mapped then."""
        image = unpack(Path(bundle), self._store, self._home, self._criu.version)
        with belongings(image, self._home) as inherit:
            pid = self._criu.restore(image, inherit).wait(PATIENCE).pid
        self._actor, self._bind = self.keep(Child(pid, self.log(_ACTOR))), True
        self.node.blocks[_ACTOR] = ActorBlock.attach(self.node.site.block_path(_ACTOR))
        return mapped(pid)

    def namespaces(self) -> list[str]:
        """Which host this is, as the kernel tells them apart."""
        return [str(Path("/proc/self/ns", kind).readlink()) for kind in ("mnt", "net", "pid")]


def main() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "shm", _SHM], check=True)
    with Worker(Path(sys.argv[1])) as worker:
        for line in sys.stdin:
            method, *arguments = msgspec.json.decode(line)
            answer = getattr(worker, method)(*arguments)
            print(msgspec.json.encode(answer).decode(), flush=True)


if __name__ == "__main__":
    main()
