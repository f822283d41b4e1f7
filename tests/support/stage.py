"""A run's shared memory with weights published, and prepared or plain processes acting on it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
from helpers import PATIENCE, TESTS

from artos.clock import Deadline
from artos.errors import DeadlineExceeded
from artos.protocol.invocations import (
    Done,
    FromMember,
    Invoke,
    Ready,
    Stop,
    decode_from_member,
    encode,
)
from artos.runs.plan import Plan, Site
from artos.runs.run_memory import RunMemory
from artos.runtime.member import ActorRole
from artos.runtime.serving import actor_role
from artos.runtime.template import Identity, tell
from artos.specs.members import ACTORS, TEMPLATE, Member
from artos.system.child import Child, ProcessSpec, command, environment, start
from artos.system.closing import Closing
from head.run.request import reference_of
from triggers.registration import prepare

HERE = TESTS / "artos" / "runtime"
ROUND, ROUNDS = 64, 2

Rows = dict[str, bytes]


@cache
def plan_of(env: str) -> Plan:
    """PPO with two actors of two environments each; blocks keep the last rows only."""
    settings = {"env": env, "envs": 2, "steps": ROUND, "actors": 2}
    plan = prepare(reference_of("ppo", settings, HERE), seed=9).plan
    return msgspec.structs.replace(plan, on_full="overwrite", capacity=8 * ROUND)


class Stage(Closing):
    """Plays the supervisor: owns the memory and the processes, sends invocations, hears reports."""

    def __init__(self, env: str, logs: Path) -> None:
        self.plan, self.logs = plan_of(env), logs
        self.node = RunMemory(self.plan, "stage", logs)
        self._publish()
        self._children: list[Child] = []
        self._popen: list[subprocess.Popen[bytes]] = []

    def _publish(self) -> None:
        slot = self.node.weights.allocate()
        rng = np.random.default_rng(3)
        for array in slot.arrays.values():
            array[...] = rng.normal(size=array.shape) / 10
        self.node.weights.commit(slot, 1)

    def close(self) -> None:
        """End every process and remove the shared memory."""
        for child in self._children:
            child.kill()
        for process in self._popen:
            process.kill()
            with process:  # closes its pipes, reaps it
                pass
        self.node.close()

    # -- who is who ----------------------------------------------------------------------------

    def site(self, actor: int) -> Site:
        return msgspec.structs.replace(self.node.site, member=Member(ACTORS, actor))

    @property
    def template(self) -> Member:
        return Member(TEMPLATE)

    def identity(self, actor: int) -> Identity:
        return Identity(self.site(actor), str(self.log(actor)))

    def log(self, actor: int) -> Path:
        return self.logs / f"actor-{actor}.log"

    def arguments(self, site: Site) -> list[str]:
        return [msgspec.json.encode(site).decode(), str(self.node.plan_file)]

    # -- starting ------------------------------------------------------------------------------

    def start_plain(self, actor: int) -> Child:
        """An actor process as it is without templates."""
        spec = ProcessSpec("artos.runtime.process", tuple(self.arguments(self.site(actor))))
        return self.keep(start(spec, self.log(actor)))

    def start_template(
        self, kind: str, *more: str, prefix: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        """A template as a supervisor starts it; its log is ``template.log``."""
        site = msgspec.structs.replace(self.node.site, member=self.template)
        streams = (subprocess.PIPE,) * 2 if kind == "fork" else (subprocess.DEVNULL, None)
        with (self.logs / "template.log").open("ab") as log:
            process = subprocess.Popen(
                [*prefix, *command("artos.runtime.template", kind, *self.arguments(site), *more)],
                stdin=streams[0], stdout=streams[1] or log, stderr=log, start_new_session=True,
                env={**environment(1), "PYTHONUNBUFFERED": ""},  # as users have it
            )  # fmt: skip
        self._popen.append(process)
        return process

    def fork(self, server: subprocess.Popen[bytes], actor: int) -> Child:
        """Ask a template in fork mode for an actor."""
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(msgspec.json.encode(self.identity(actor)) + b"\n")
        server.stdin.flush()
        return self.keep(Child(int(server.stdout.readline()), self.log(actor)))

    def wake(self, sleeper: subprocess.Popen[bytes], file: Path, actor: int) -> None:
        """Tell a template in image mode who it is."""
        tell(file, self.identity(actor))
        sleeper.send_signal(signal.SIGUSR1)

    def keep(self, child: Child) -> Child:
        self._children.append(child)
        return child

    # -- talking -------------------------------------------------------------------------------

    def hear(self, member: Member) -> FromMember:
        """The next report of a member."""
        deadline = Deadline(PATIENCE)
        while (data := self.node.board.up(member).take()) is None:
            if deadline.passed:
                raise DeadlineExceeded(f"a report of {member}: {self.said()}", PATIENCE)
            self.node.board.doorbell.wait(deadline.left)
        return decode_from_member(data)

    def ready(self, member: Member) -> Ready:
        report = self.hear(member)
        assert isinstance(report, Ready), report
        return report

    def sample(self, actor: int, stop: int) -> None:
        """Have an actor's block filled up to row ``stop``; returns at once."""
        call = Invoke(stop, "actors.sample", "sample", stop=stop)
        self.node.board.down(Member(ACTORS, actor)).put(encode(call))

    def done(self, actor: int) -> Done:
        report = self.hear(Member(ACTORS, actor))
        assert isinstance(report, Done), report
        return report

    def stop(self, actor: int) -> None:
        self.node.board.down(Member(ACTORS, actor)).put(encode(Stop()))

    def said(self) -> dict[str, str]:
        """All logs."""
        return {log.name: log.read_text(errors="replace") for log in self.logs.glob("*.log")}

    # -- rows ----------------------------------------------------------------------------------

    def rows(self, actor: int, rounds: int = ROUNDS) -> Rows:
        """Sample ``rounds`` rounds one by one; every byte that is then in the block, by key."""
        for stop in range(ROUND, (rounds + 1) * ROUND, ROUND):
            self.sample(actor, stop)
            self.done(actor)
        return self.written(actor)

    def written(self, actor: int) -> Rows:
        block = self.node.blocks[actor]
        assert block.written
        return {name: array[: block.written].tobytes() for name, array in block.arrays.items()}


@cache
def rows_here(env: str, actor: int, rounds: int = ROUNDS) -> Rows:
    """The same rows by the role alone, set up unprepared in this process."""
    with TemporaryDirectory() as logs, Stage(env, Path(logs)) as stage:
        role, _ = actor_role(stage.plan, stage.site(actor), stage.node.model)
        return rows_of(stage, role, actor, rounds)


def rows_of(stage: Stage, role: ActorRole, actor: int, rounds: int = ROUNDS) -> Rows:
    """What a role writes that is called in this process; it is closed afterwards."""
    try:
        for stop in range(ROUND, (rounds + 1) * ROUND, ROUND):
            role.run(Invoke(stop, "actors.sample", "sample", stop=stop))
    finally:
        role.close()
    return stage.written(actor)


def open_files(pid: int) -> dict[int, str]:
    """Descriptors of a process and what they are."""
    folder = Path("/proc", str(pid), "fd")
    return {int(link.name): str(link.readlink()) for link in folder.iterdir()}


def mapped(pid: int) -> str:
    """What a process has mapped, as the kernel lists it."""
    return Path("/proc", str(pid), "maps").read_text()
