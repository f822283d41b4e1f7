"""Live processes to attack: one of each kind, with an honest peer that checks its state."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil

from artos.buffer.shm_folder import PREFIX, reap_orphans
from artos.errors import DeadlineExceeded
from artos.protocol import codec, control, steering
from artos.protocol.data import Chunk, Finish, Greet, Pull, Terms, Weights
from artos.protocol.message import Message
from artos.runs.orders import AGENT_COUNTS, ExecutorOrder, RunOrder, write_order
from artos.specs.members import ACTORS, Member
from artos.system.child_modules import ChildModule
from artos.system.closing import Closing
from artos.system.shm import shm_root
from artos.transport.counters import Counters
from artos.transport.keys import Keys, make_keys
from artos.version import VERSION
from evaluation.fuzz.peers import Loud

_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 120.0
_FRAMES_EACH = 100
_RUN, _EPOCH = "fuzzed", 11
_FILE_FORMATS, _WITH_A_LOG = slice(18, 20), b"\2\2"
"""In the header of a file of SQLite: how it is written and read."""
_ACTORS = 3
"""The last actor is left alone: its number is not among the numbers that are tried."""


@dataclass
class Target:
    """A process to attack, and how to reach it.

    ``say`` sends a message body through a channel, ``throw`` sends a frame past the channels (None:
    the target accepts frames only from a peer that may send anything). ``kinds`` are the message
    types to try. ``settle`` waits until all messages were taken. ``state`` returns a state that
    must not change, and the number of messages refused so far, which must rise.
    """

    name: str
    process: psutil.Process
    kinds: tuple[type[Message], ...]
    say: Callable[[bytes], None]
    settle: Callable[[], None]
    state: Callable[[], tuple[object, int]]
    throw: Callable[[bytes], None] | None = None


class Place(Closing):
    """All attacked processes, in a folder of their own; they end with ``close``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_keys(folder / "keys")
        self.keys = Keys.load(folder / "keys")
        self._stack = ExitStack()

    def start(self, name: str, module: str, *arguments: object) -> psutil.Process:
        """Start a process of ARTOS with its output in a file."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(_ROOT), "OMP_NUM_THREADS": "1",
                     "XDG_CACHE_HOME": str(self.folder / name)},
            )  # fmt: skip
        self._stack.callback(process.wait)
        found = psutil.Process(process.pid)
        self._stack.callback(_kill, found)
        return found

    def said(self, name: str) -> str:
        """The output of a process."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def serves(self, endpoint: str, *, within: bool = False) -> Loud:
        """An attacker's end that processes call."""
        return self._stack.enter_context(Loud.serves(endpoint, None if within else self.keys))

    def calls(self, endpoint: str, me: str) -> Loud:
        """An attacker's end that calls a process."""
        return self._stack.enter_context(Loud.calls(endpoint, self.keys, me))

    def strangers(self, endpoint: str) -> Strangers:
        """Attacker's ends that call a process, one after the other."""
        return self._stack.enter_context(Strangers(self, endpoint))

    def close(self) -> None:
        """End all processes and attackers; the shared memory of killed processes is removed."""
        self._stack.close()
        _awaited(_nothing_left, "shared memory to be removed")


class Strangers(Closing):
    """Strangers that each throw a hundred frames at a process and then disconnect."""

    def __init__(self, place: Place, endpoint: str) -> None:
        self._endpoint, self._keys = endpoint, place.keys
        self._count = 0
        self._end: Loud | None = None

    def throw(self, frame: bytes) -> None:
        """Have a stranger throw a frame."""
        if self._end is None or self._count % _FRAMES_EACH == 0:
            self.close()
            self._end = Loud.calls(self._endpoint, self._keys, f"stranger.{self._count}")
        self._end.insist(frame)
        self._count += 1

    def close(self) -> None:
        """Disconnect the present stranger."""
        if self._end is not None:
            self._end.close()


def head(place: Place) -> Target:
    """A head daemon, attacked by peers with a node's key and with a user's key."""
    runs = place.folder / "runs"
    flags = ("--listen", "tcp://127.0.0.1:*", "--keys", place.keys.folder, "--runs", runs)
    process = place.start("head", "deploy.cli", "head", *flags)
    endpoint = _awaited(
        lambda: _between(place.said("head"), "listens at ", ","), "the head to say where it listens"
    )
    strangers, turns = place.strangers(endpoint), itertools.count()
    evil = [place.calls(endpoint, name) for name in ("evil", "user:owner/evil")]
    user = place.calls(endpoint, "user:owner/honest")

    def say(body: bytes) -> None:
        evil[next(turns) % len(evil)].say(body)

    def settle() -> None:
        for end in evil:
            end.settle()

    def state() -> tuple[object, int]:
        user.forget(control.ClusterAnswer)
        user.say(codec.encode(control.ReadStatus()))
        user.until(lambda: user.last(control.ClusterAnswer), "the head's answer")
        answer = user.last(control.ClusterAnswer)
        assert isinstance(answer, control.ClusterAnswer)
        files = sorted((runs / ".head").glob("state.sqlite*"))
        # It is written after the first request, and only then becomes a file with a log of writes.
        turns = any(file.name.endswith("-journal") for file in files)
        kept = b"" if turns else b"".join(file.read_bytes() for file in files)
        if kept[_FILE_FORMATS] != _WITH_A_LOG:
            return state()
        found = sorted(path.name for path in runs.iterdir())
        known = answer.cluster
        return (known.nodes, known.runs, known.faults, kept, found), known.malformed

    return Target("head", process, codec.TYPES, say, settle, state, strangers.throw)


def worker(place: Place) -> Target:
    """A worker daemon, attacked by its head."""
    host = place.serves("tcp://127.0.0.1:*")
    flags = ("--head", host.endpoint, "--keys", place.keys.folder, "--name", "w1")
    process = place.start("worker", "deploy.cli", "worker", *flags)
    host.until(lambda: host.last(control.Hello), "the worker's hello")
    peer, _ = host.heard[control.Hello]
    host.say(codec.encode(control.Welcome(control.PROTOCOL, VERSION, 15.0)), peer)

    def state() -> tuple[object, int]:
        load = host.fresh(control.Load, 1.0)
        assert isinstance(load, control.Load)
        home = next((place.folder / "worker" / "artos" / "nodes").iterdir())
        found = sorted(path.name for path in home.iterdir())
        return (load.faults, found, len(process.children())), load.malformed

    # A head may well open an executor, start a run, and end the daemon.
    ordered = (control.Assign, control.CarryRun, control.Leave)
    kinds = tuple(kind for kind in codec.TYPES if kind not in ordered)
    return Target("worker", process, kinds, lambda body: host.say(body, peer), host.settle, state)


class RunPlace:
    """A run process and its replay process; their head and nodes are attackers."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.head = place.serves(f"ipc://{place.folder}/head", within=True)
        settings = {"actors": _ACTORS, "total_steps": 10**9, "env": "CartPole-v1"}
        order = RunOrder(
            _RUN, _EPOCH, {"workload": "ppo", "settings": settings, "deadline": 1e6}, "", "",
            str(place.folder / _RUN), "127.0.0.1", str(place.keys.folder), self.head.endpoint,
        )  # fmt: skip
        write_order(place.folder / "run.json", order)
        self.process = place.start("run", ChildModule.RUN, place.folder / "run.json")
        self.head.until(lambda: self.head.last(control.RunUp), "the run to be up")
        up = self.head.last(control.RunUp)
        assert isinstance(up, control.RunUp)
        self.up = up

    def run(self) -> Target:
        """The run process, attacked by a node that is not part of the run."""
        evil = self.place.calls(self.up.steering, "evil")
        throw = self.place.strangers(self.up.steering).throw
        return Target("run", self.process, codec.TYPES, evil.say, evil.settle, self._news, throw)

    def node(self) -> Target:
        """The run process, attacked by the node of its actors."""
        node = self.place.calls(self.up.steering, "w9")
        node.say(codec.encode(steering.ExecutorUp("w9", _EPOCH, 1)))
        self.head.say(codec.encode(control.Placed(dict.fromkeys(range(_ACTORS), "w9"))), _RUN)
        self.head.settle()
        node.until(lambda: node.last(steering.Start), "an actor to be wanted")
        # These messages have a legitimate effect when a node sends them.
        meant = (steering.Died, steering.ExecutorClosed, steering.ExecutorUp)
        kinds = tuple(kind for kind in codec.TYPES if kind not in meant)

        def state() -> tuple[object, int]:
            # A node may report any number of faults; faults of the run process are in its log.
            (*kept, _), _ = self._news()
            return (kept, self.place.said("run").count("Traceback")), node.refused

        return Target("run (by its node)", self.process, kinds, node.say, node.settle, state)

    def commanded(self) -> Target:
        """The run process, attacked by its head; orders that a head may give are left out."""
        meant = (control.Placed, control.ScaleRun, control.SetRun, control.FinishRun)
        kinds = tuple(kind for kind in codec.TYPES if kind not in meant)
        say = lambda body: self.head.say(body, _RUN)  # noqa: E731
        return Target("run (by its head)", self.process, kinds, say, self.head.settle, self._news)

    def replay(self) -> Target:
        """Its replay process, attacked by a transfer agent that is not part of the run."""
        (process,) = [p for p in self.process.children() if ChildModule.REPLAY in p.cmdline()]
        evil = self.place.calls(self.up.experience, "evil")

        def settle() -> None:
            evil.calm_down(lambda: evil.refused)

        kinds = (Greet, Chunk, Pull, Weights, Terms, Finish)
        return Target("replay", process, kinds, evil.insist, settle, self._news)

    def _news(self) -> tuple[tuple[object, ...], int]:
        news = self.head.fresh(control.RunNews, 1.0)
        assert isinstance(news, control.RunNews)
        facts = news.facts
        assert facts is not None
        assert isinstance(facts.malformed, int)
        same = (news.state, facts.steps, facts.nodes, facts.rows_lost, facts.faults)
        return same, facts.malformed


class ExecutorPlace:
    """An executor and its transfer agent; their run and replay process are attackers."""

    def __init__(self, place: Place, up: control.RunUp) -> None:
        self.run = place.serves("tcp://127.0.0.1:*")
        self.replay = place.serves("tcp://127.0.0.1:*")
        assign = control.Assign(
            _RUN, _EPOCH, up.plan, up.folder, "", self.run.endpoint, self.replay.endpoint, 1
        )
        folder = place.folder / "executor"
        (folder / "logs").mkdir(parents=True)
        order = ExecutorOrder(
            assign,
            "w1",
            str(place.keys.folder),
            "",
            str(folder / "logs"),
            str(folder / "images"),
            (min(os.sched_getaffinity(0)),),
        )
        write_order(folder / "order.json", order)
        self.process = place.start("executor", ChildModule.EXECUTOR, folder / "order.json")
        self.run.until(lambda: self.run.last(steering.ExecutorUp), "the executor to be up")
        self.run.say(codec.encode(steering.Start(Member(ACTORS, _ACTORS - 1), 1, 0)), "w1")
        self.run.until(lambda: self.run.last(steering.ActorReport), "an actor to be ready")

    def executor(self) -> Target:
        """The executor, attacked by its run; orders that a run may give are left out."""
        ordered = (
            steering.CloseExecutor, steering.Start, steering.Prepare, steering.Call, steering.End,
            steering.Retire, steering.Pack, steering.PackMemory, steering.TakeMemory,
            steering.HeldState, steering.BranchActor,
        )  # fmt: skip
        kinds = tuple(kind for kind in codec.TYPES if kind not in ordered)
        say = lambda body: self.run.say(body, "w1")  # noqa: E731
        return Target("executor", self.process, kinds, say, self.run.settle, self._news)

    def agent(self) -> Target:
        """Its transfer agent, attacked by the replay process."""
        (process,) = [p for p in self.process.children() if ChildModule.AGENT in p.cmdline()]
        self.replay.until(lambda: self.replay.met, "the agent to call")
        (file,) = shm_root().glob(f"{PREFIX}*{_RUN}.w1*/agent")
        counters = Counters(file, AGENT_COUNTS)

        def throw(frame: bytes) -> None:
            for name in ("w1", "w1/weights"):
                self.replay.throw(frame, name)

        def settle() -> None:
            self.replay.calm_down(lambda: counters["bad"])
            self.run.turn()  # an executor closes if its run is silent for a minute

        return Target("agent", process, codec.TYPES, throw, settle, self._news)

    def _news(self) -> tuple[object, int]:
        news = self.run.fresh(steering.ExecutorNews, 1.0)
        assert isinstance(news, steering.ExecutorNews)
        children = [process.pid for process in self.process.children()]
        return (news.faults, news.written, news.waits_for_slot, children), news.malformed


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        for each in (*process.children(recursive=True), process):
            with suppress(psutil.NoSuchProcess):
                each.kill()


def _nothing_left() -> bool:
    reap_orphans()
    return not [*shm_root().glob(f"{PREFIX}{_RUN}*")]


T = TypeVar("T")


def _awaited(found: Callable[[], T], what: str) -> T:
    end = time.monotonic() + _PATIENCE
    while not (here := found()):
        if time.monotonic() > end:
            raise DeadlineExceeded(what, _PATIENCE)
        time.sleep(0.05)
    return here


def _between(text: str, before: str, after: str) -> str:
    _, found, rest = text.partition(before)
    return rest.partition(after)[0] if found else ""


def plain(state: object) -> str:
    """A state as text, to compare and to show."""
    return msgspec.json.encode(state).decode(errors="replace")
