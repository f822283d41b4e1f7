"""Live processes to be attacked: one of each kind, with an honest peer that checks on it."""

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

from artos.buffer.segment import PREFIX, reap_orphans, shm_root
from artos.errors import DeadlineExceeded
from artos.protocol import codec, control, steering
from artos.protocol.data import Chunk, Finish, Greet, Pull, Terms, Weights
from artos.protocol.message import Message
from artos.protocol.orders import AGENT_COUNTS, ExecutorOrder, RunOrder, write_order
from artos.system.child_modules import ChildModule
from artos.system.closing import Closing
from artos.transport.counters import Counters
from artos.transport.keys import Keys, make_keys
from artos.version import VERSION
from evaluation.fuzz.peers import Loud

_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 120.0
_FRAMES_EACH = 100
_RUN, _EPOCH = "fuzzed", 11
_ACTORS = 3
"""The last one is left alone: its number is none that is tried."""


@dataclass
class Target:
    """A process and how to get at it.

    ``say`` gets bodies to be sent to it in order, ``throw`` frames beside all order (None: only by
    who may say what it likes anyway), ``kinds`` are what is tried, ``settle`` waits until all of it
    was taken, and ``state`` is what must be the same afterwards, with the number of messages that
    it refused so far, which must not.
    """

    name: str
    process: psutil.Process
    kinds: tuple[type[Message], ...]
    say: Callable[[bytes], None]
    settle: Callable[[], None]
    state: Callable[[], tuple[object, int]]
    throw: Callable[[bytes], None] | None = None


class Place(Closing):
    """Everything that is attacked, in a folder of its own; all of it ends with ``close``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_keys(folder / "keys")
        self.keys = Keys.load(folder / "keys")
        self._stack = ExitStack()

    def start(self, name: str, module: str, *arguments: object) -> psutil.Process:
        """Start a process of ours with its output in a file."""
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
        """What a process wrote."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def serves(self, endpoint: str, *, within: bool = False) -> Loud:
        """An end that processes call."""
        return self._stack.enter_context(Loud.serves(endpoint, None if within else self.keys))

    def calls(self, endpoint: str, me: str) -> Loud:
        """An end that calls a process."""
        return self._stack.enter_context(Loud.calls(endpoint, self.keys, me))

    def strangers(self, endpoint: str) -> Strangers:
        """Ends that call a process, one after the other."""
        return self._stack.enter_context(Strangers(self, endpoint))

    def close(self) -> None:
        """End all, the attackers too; the shared memory of killed processes is removed."""
        self._stack.close()
        _awaited(_nothing_left, "shared memory to be removed")


class Strangers(Closing):
    """Throw frames at a process, a hundred each, and are never heard of again."""

    def __init__(self, place: Place, endpoint: str) -> None:
        self._endpoint, self._keys = endpoint, place.keys
        self._count = 0
        self._end: Loud | None = None

    def throw(self, frame: bytes) -> None:
        """Have one of them throw it."""
        if self._end is None or self._count % _FRAMES_EACH == 0:
            self.close()
            self._end = Loud.calls(self._endpoint, self._keys, f"stranger.{self._count}")
        self._end.insist(frame)
        self._count += 1

    def close(self) -> None:
        """Hang up."""
        if self._end is not None:
            self._end.close()


def head(place: Place) -> Target:
    """A head daemon, seen by a peer that has a node's key and a user's."""
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
        user.forget(control.Answer)
        user.say(codec.encode(control.ReadStatus()))
        user.until(lambda: user.last(control.Answer), "the head's answer")
        answer = user.last(control.Answer)
        assert isinstance(answer, control.Answer)
        file = runs / ".head" / "state.json"
        kept = file.read_bytes() if file.exists() else b""
        found = sorted(path.name for path in runs.iterdir())
        if not kept:
            return state()  # it is written when the first has asked
        known = answer.data
        return (known["nodes"], known["runs"], known["faults"], kept, found), known["malformed"]

    return Target("head", process, codec.TYPES, say, settle, state, strangers.throw)


def worker(place: Place) -> Target:
    """A worker daemon, as its head sees it."""
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

    # What is well-formed opens an executor, which is what a head is for.
    kinds = tuple(kind for kind in codec.TYPES if kind is not control.Assign)
    return Target("worker", process, kinds, lambda body: host.say(body, peer), host.settle, state)


class RunPlace:
    """A run process and its replay process, an executor and its agent; no others are real."""

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
        """The run process, as a node sees it that has no business there."""
        evil = self.place.calls(self.up.steering, "evil")
        throw = self.place.strangers(self.up.steering).throw
        return Target("run", self.process, codec.TYPES, evil.say, evil.settle, self._news, throw)

    def node(self) -> Target:
        """The run process, as a node sees it that has its actors."""
        node = self.place.calls(self.up.steering, "w9")
        node.say(codec.encode(steering.ExecutorUp("w9", _EPOCH, 1)))
        self.head.say(codec.encode(control.Placed(dict.fromkeys(range(_ACTORS), "w9"))), _RUN)
        self.head.settle()
        node.until(lambda: node.last(steering.Start), "an actor to be wanted")
        # An actor's death, or that all is closed, is told by nodes that mean it.
        meant = (steering.Died, steering.ExecutorClosed, steering.ExecutorUp)
        kinds = tuple(kind for kind in codec.TYPES if kind not in meant)

        def state() -> tuple[object, int]:
            # What it survived itself, a node may say as it likes: ours is in the log.
            (*kept, _), _ = self._news()
            return (kept, self.place.said("run").count("Traceback")), node.refused

        return Target("run (by its node)", self.process, kinds, node.say, node.settle, state)

    def commanded(self) -> Target:
        """The run process, as its head sees it; what a head may well order is left out."""
        kinds = tuple(
            kind for kind in codec.TYPES if kind not in (control.Placed, control.ScaleRun)
        )
        say = lambda body: self.head.say(body, _RUN)  # noqa: E731
        return Target("run (by its head)", self.process, kinds, say, self.head.settle, self._news)

    def replay(self) -> Target:
        """Its replay process, as an agent sees it that has no business there."""
        (process,) = [p for p in self.process.children() if ChildModule.REPLAY in p.cmdline()]
        evil = self.place.calls(self.up.experience[0], "evil")

        def settle() -> None:
            evil.calm_down(lambda: evil.refused)

        kinds = (Greet, Chunk, Pull, Weights, Terms, Finish)
        return Target("replay", process, kinds, evil.insist, settle, self._news)

    def _news(self) -> tuple[tuple[object, ...], int]:
        news = self.head.fresh(control.RunNews, 1.0)
        assert isinstance(news, control.RunNews)
        facts = news.facts
        same = (news.state, facts["steps"], facts["nodes"], facts["rows_lost"], facts["faults"])
        return same, facts["malformed"]


class ExecutorPlace:
    """An executor and its transfer agent; the run that they belong to is the attacker."""

    def __init__(self, place: Place, up: control.RunUp) -> None:
        self.run = place.serves("tcp://127.0.0.1:*")
        self.replay = place.serves("tcp://127.0.0.1:*")
        assign = control.Assign(
            _RUN, _EPOCH, up.plan, up.folder, "", self.run.endpoint, (self.replay.endpoint,), 1
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
        self.run.say(codec.encode(steering.Start(_ACTORS, 1, 0)), "w1")
        self.run.until(lambda: self.run.last(steering.ActorReport), "an actor to be ready")

    def executor(self) -> Target:
        """The executor, as its run sees it; what a run may well order is left out."""
        ordered = (steering.CloseExecutor, steering.Start, steering.Prepare)
        kinds = tuple(kind for kind in codec.TYPES if kind not in ordered)
        say = lambda body: self.run.say(body, "w1")  # noqa: E731
        return Target("executor", self.process, kinds, say, self.run.settle, self._news)

    def agent(self) -> Target:
        """Its transfer agent, as a replay process sees it."""
        (process,) = [p for p in self.process.children() if ChildModule.AGENT in p.cmdline()]
        self.replay.until(lambda: self.replay.met, "the agent to call")
        (file,) = shm_root().glob(f"{PREFIX}*{_RUN}.w1*/agent")
        counters = Counters(file, AGENT_COUNTS)

        def throw(frame: bytes) -> None:
            for name in ("w1", "w1/weights"):
                self.replay.throw(frame, name)

        def settle() -> None:
            self.replay.calm_down(lambda: counters["bad"])
            self.run.turn()  # an executor whose run is not heard for a minute closes

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
    """A state to be compared and shown."""
    return msgspec.json.encode(state).decode(errors="replace")
