"""Continues the present episode of a live actor many times, in copies of its process.

A fork of the actor, the *stem*, keeps its state as it was: it sees nothing that the actor changes
later, and changes nothing that others see. Each continuation is a fork of the stem. Where a fork
would lack threads, the actor sleeps until an image of its process has been made, and each
continuation is a copy of that.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from xxhash import xxh3_64

from artos.actors.context import ActorContext
from artos.errors import CheckpointFault, NotBranched
from artos.protocol.invocations import Branch, Branched
from artos.runtime.template import WAKE
from artos.specs.contracts import Actor
from artos.system.child import end_with_parent
from artos.system.process_stat import ProcessStat
from artos.system.random_streams import own_streams, renew, seed_of, streams_of

FORK, CLONE = "fork", "clone"
ACTOR = -1
"""The turn of the actor itself, which goes on."""
_PATIENCE = 20.0
"""Seconds for which the actor waits until its fork has copies of what it uses."""
_GENTLY = 10
"""How much nicer than the run: its actors and learners have the CPUs first."""
_LAST = 4000
"""Characters of a traceback that are told."""


_LAST_STREAM = 2
_TURN_BYTES = 1 << 10
_NO_WEIGHTS = "it has no weights yet: ask again once it has written its first rows"
_OTHERS = "it takes its weights from elsewhere, and not those that it is given"
_ASKS = "it asks servers at each step, which know one episode of it"
_THREADS = (
    "its process has {} threads that a copy would not have: let the environment start none (one "
    "emulator of ale_py has none), or see that images can be made (artos doctor says what lacks)"
)
_PROCESSES = (
    "its process has started {} others, which copies would share: let the environment start none"
)
_FILES = "its process has opened {}, which copies would share: close it in between, or open none"


class Turn(msgspec.Struct, frozen=True):
    """Which continuation a copy is; ``made`` is how many seconds its process took."""

    number: int = ACTOR
    made: float = 0.0


class Found(msgspec.Struct, frozen=True):
    """A line: what came of a continuation with weights of ``version``.

    ``made`` is how many seconds its process took.
    """

    number: int
    total: float = 0.0
    steps: int = 0
    ended: bool = False
    seed: int = 0
    digest: str = ""
    made: float = 0.0
    fault: str = ""
    version: int = -1


def digest(actor: Actor, env: int) -> str:
    """A checksum of what the actor acts on next in an environment, and of an emulator's memory."""
    sums = xxh3_64()
    for name, part in sorted(actor.present(env)[0].items()):
        sums.update(name.encode())
        sums.update(part.tobytes())
    return sums.hexdigest()


class Branching:
    """Carries out orders to branch, in the process of one actor.

    ``held`` copies what the process has of memory that others write to; with that, ``let_go`` has
    a copy of the process depend on nothing that others may change.
    """

    def __init__(
        self, actor: Actor, context: ActorContext,
        held: Callable[[], dict[str, Any]], let_go: Callable[[dict[str, Any]], None],
    ) -> None:  # fmt: skip
        self._actor, self._context, self._held, self._let_go = actor, context, held, let_go
        self._stems: dict[int, int] = {}
        """By process id those that may still run, with the id that /proc has for them."""

    def branch(self, order: Branch, say: Callable[[Branched], None]) -> None:
        """Begin to carry out an order; ``say`` what is being done, or why that cannot be."""
        self.reap()
        try:
            if self._context.desks:
                raise NotBranched(_ASKS)  # noqa: TRY301 (said as others are)
            seen, so_far = digest(self._actor, order.env), self._actor.present(order.env)[1]
            if not (held := self._held())["bound"]:
                raise NotBranched(_NO_WEIGHTS)  # noqa: TRY301
            if order.weights:
                if not self._actor.acts_as_bound:
                    raise NotBranched(_OTHERS)  # noqa: TRY301
                from artos.runtime.other_weights import read, sent  # noqa: PLC0415  # it loads much

                # Here, so that all copies have the same ones, whatever that run saves meanwhile.
                run, plan = Path(order.weights), self._context.plan
                held = sent(Path(order.sent)) if order.sent else read(run, plan, best=order.best)
            way = self._way(order)
            pid = self._stem(order, held) if way == FORK else 0
        except (NotBranched, CheckpointFault) as error:
            say(Branched(fault=str(error)))
        except Exception:  # of user code
            say(Branched(fault=traceback.format_exc()[-_LAST:]))
        else:
            row, version = self._context.block.written, self._actor.version
            said = Branched(way, pid, row, version, so_far.total, so_far.steps, seen)
            if way == FORK:
                say(said)
            else:
                self._sleep(order, held, lambda: say(said))

    def _way(self, order: Branch) -> str:
        """How its process can be copied.

        Raises:
            NotBranched: it cannot be.
        """
        if shared := shared_in_a_copy(self._stems.values()):
            raise NotBranched(shared)
        if not (threads := len(os.listdir("/proc/self/task")) - 1):  # noqa: PTH208 (names)
            return FORK
        if not order.image:
            raise NotBranched(_THREADS.format(threads))
        return CLONE

    def _sleep(self, order: Branch, held: dict[str, Any], say: Callable[[], None]) -> None:
        """Sleep until woken, here and in each copy of the image that is made meanwhile."""
        file = os.open(order.image, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        signal.pthread_sigmask(signal.SIG_BLOCK, {WAKE})
        try:
            say()
            signal.sigwait({WAKE})
            turn = msgspec.json.decode(os.pread(file, _TURN_BYTES, 0), type=Turn)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {WAKE})
            os.close(file)
        if turn.number != ACTOR:
            _run_and_end(partial(self._copied, order, held, turn))

    def _copied(self, order: Branch, held: dict[str, Any], turn: Turn) -> None:
        """Go on in a copy of an image."""
        self._let_go(held)
        self._play(order, turn.number, streams_of(self._actor), turn.made)

    def reap(self) -> None:
        """Leave nothing of those that have ended."""
        for pid in tuple(self._stems):
            with suppress(ChildProcessError):
                if not os.waitpid(pid, os.WNOHANG)[0]:
                    continue
            del self._stems[pid]

    def _stem(self, order: Branch, held: dict[str, Any]) -> int:
        """Fork the stem; returns its process id, as /proc has it, once it depends on nothing."""
        told, tell = os.pipe()
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        if not (pid := os.fork()):
            os.close(told)
            _run_and_end(partial(self._continue, order, held, parent, tell))
        self._stems[pid] = 0
        os.close(tell)
        try:
            if not select.select([told], [], [], _PATIENCE)[0]:
                os.kill(pid, signal.SIGKILL)
                raise NotBranched(f"its copy was not ready within {_PATIENCE:g} s: ask again")
            answer = os.read(told, 1 << 16).decode()
        finally:
            os.close(told)
        if not answer.isdigit():
            raise NotBranched("its copy ended at once: see the actor's log")
        self._stems[pid] = int(answer)
        return int(answer)

    # -- in the stem ---------------------------------------------------------------------------

    def _continue(self, order: Branch, held: dict[str, Any], parent: int, tell: int) -> None:
        _end_with(parent)
        self._let_go(held)
        # In a namespace of its own the process knows another number than others do.
        os.write(tell, os.readlink("/proc/self").encode())  # noqa: PTH115
        os.close(tell)
        with suppress(OSError):  # the machine may have lost one of them
            os.sched_setaffinity(0, order.cpus or (0,))
        streams = streams_of(self._actor)
        gc.freeze()  # the collector need not touch, and so copy, what is shared
        running: dict[int, int] = {}
        stem = os.getpid()
        for number in range(order.times):
            if len(running) >= max(1, len(order.cpus)):
                _await(order, running)
            began = time.perf_counter()
            if not (pid := os.fork()):
                made = time.perf_counter() - began
                _end_with(stem)
                _run_and_end(partial(self._play, order, number, streams, made))
            running[pid] = number
        while running:
            _await(order, running)

    def _play(self, order: Branch, number: int, streams: list[Any], made: float) -> None:
        who = self._context
        path = (who.actor, who.incarnation, who.plan.resumes, who.block.written, order.seed)
        seed = seed_of(who.plan.seed, *path, number)
        os.nice(_GENTLY)
        try:
            seen = digest(self._actor, order.env)
            own_streams(seed)
            renew(streams, seed)
            played = self._actor.play_on(order.env, order.steps, greedy=order.greedy)
        except Exception:  # of user code
            found = Found(number, seed=seed, fault=traceback.format_exc()[-_LAST:])
        else:
            found = Found(number, *played, seed=seed, digest=seen, made=made)
        _tell(order, msgspec.structs.replace(found, version=self._actor.version))


def shared_in_a_copy(stems: Collection[int]) -> str:
    """What of this process a copy would share with it; "" if there is nothing.

    ``stems`` are processes of ours, which do no harm.
    """
    tasks = Path("/proc/self/task").iterdir()
    children = [each for task in tasks for each in (task / "children").read_text().split()]
    if others := [each for each in children if int(each) not in stems and not _has_ended(each)]:
        return _PROCESSES.format(len(others))
    held = set()
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 (names)
        with suppress(OSError):  # that of the listing itself
            if int(number) > _LAST_STREAM:
                held.add(os.readlink(f"/proc/self/fd/{number}"))  # noqa: PTH115 (maybe a socket)
    return _FILES.format(", ".join(sorted(held))) if held else ""


def _has_ended(pid: str) -> bool:
    """Whether nobody has waited yet for a process that has ended, like those of a killed stem."""
    try:
        return ProcessStat.of(pid).state == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _await(order: Branch, running: dict[int, int]) -> None:
    """Wait for the end of a continuation; if it told nothing, tell that."""
    pid, status = os.wait()
    number, code = running.pop(pid), os.waitstatus_to_exitcode(status)
    if code:
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        _tell(order, Found(number, fault=f"its process ended with {how}"))


def _tell(order: Branch, found: Found) -> None:
    """Add a line; as it is one write at the file's end, no other comes in between."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(order.file, flags, 0o600)
    try:
        os.write(file, msgspec.json.encode(found) + b"\n")
    finally:
        os.close(file)


def _end_with(parent: int) -> None:
    os.environ["ARTOS_PARENT"] = str(parent)
    end_with_parent()


def _run_and_end(work: Callable[[], None]) -> NoReturn:
    """Do this in a process that was just forked, which ends without touching anything else."""
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
