"""``python -P -m workers.executor FILE``: a run's executor on this worker, by an ``ExecutorOrder``.

Exit status 0: it was told to close. Exit status 1: it closed by itself; its log says why.
"""

from __future__ import annotations

import faulthandler
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from artos.clock import SystemClock
from artos.errors import DeadlineExceeded, Refused
from artos.runs import packages
from artos.runs.orders import ExecutorOrder, read_order
from artos.runs.run_memory import CacheMemory
from artos.runtime.held import HAND_OVER_SECONDS
from artos.system.child import end_with_parent
from artos.system.child_modules import ChildModule
from artos.system.logging_setup import logging_to, to_stderr
from artos.system.signals import CLOSE
from artos.transport.keys import Keys
from artos.transport.messenger import Messenger
from workers.executor.agent_host import AgentHost
from workers.executor.executor import Executor, local_plan

_log = logging.getLogger(__name__)
_SEND_SECONDS = 5.0


class ExecutorProcess:
    """Runs the executor ordered in ``file``; SIGHUP says that the order has other ``slots``.

    ``CLOSE`` closes the executor in order, SIGINT without sending the rows that are still here.
    """

    def __init__(self, file: Path) -> None:
        self._read = partial(read_order, file, ExecutorOrder)
        self._order = self._read()

    @property
    def code(self) -> str:
        """The folder of the run's code; "" if it brings none."""
        return self._order.code

    @property
    def note(self) -> str:
        """What the log is to say first."""
        return self._order.note

    def run(self) -> str:
        """Run the executor; returns why it closed, "" if it was told to."""
        order, assign, clock = self._order, self._order.assign, SystemClock()
        plan = local_plan(assign.plan, assign.folder, order.code)
        name = f"{assign.run}.{order.owner or order.node}"
        keys = Keys.load(Path(order.keys)) if order.keys else None
        with (
            CacheMemory(plan, name, Path(order.logs)) as node,
            Messenger.connect(
                assign.steering, keys, order.node, node.board.doorbell.ring
            ) as messenger,
        ):
            agent = AgentHost(
                plan, node.site, node.plan_file, assign.experience,
                Path(order.keys) if order.keys else None, order.node, assign.epoch, clock,
                node.lock,
            )  # fmt: skip
            executor = Executor(order, node, messenger, agent, clock)
            handlers: dict[signal.Signals, Callable[[], None]] = {
                CLOSE: executor.close_soon,
                signal.SIGINT: executor.give_up,
                signal.SIGHUP: partial(executor.order_changed, self._read),
                signal.SIGCHLD: executor.child_ended,
            }
            for number, handler in handlers.items():
                signal.signal(number, lambda *_, handler=handler: handler())
            # Signals that came earlier were blocked: they are handled now.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)
            try:
                try:
                    why = executor.run()
                    executor.close()
                finally:
                    executor.kill()
            finally:
                for number in handlers:
                    ended = number == signal.SIGCHLD
                    signal.signal(number, signal.SIG_DFL if ended else signal.SIG_IGN)
            send = HAND_OVER_SECONDS if executor.hands_over else _SEND_SECONDS
            messenger.close(0.0 if executor.abandoned else send)
        return why


def main(arguments: Sequence[str]) -> int:
    """Run the process; returns its exit status."""
    # Signals that come before the handlers are installed are handled as soon as they are.
    signal.pthread_sigmask(signal.SIG_BLOCK, (CLOSE, signal.SIGINT, signal.SIGHUP))
    end_with_parent(CLOSE)
    faulthandler.enable()
    with logging_to(to_stderr):
        process = ExecutorProcess(Path(arguments[0]))
        if process.note:
            _log.warning("%s", process.note)
        why = ""
        try:
            if code := process.code:
                # Nothing has begun that they would have to close in order.
                ends = (CLOSE, signal.SIGINT)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, ends)
                packages.enter(Path(code), ChildModule.EXECUTOR, arguments)
                signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        except (Refused, DeadlineExceeded, OSError) as error:
            why = f"the run's packages cannot be installed: {error}"
        why = why or process.run()
        if why:
            _log.warning("this executor is closed: %s", why)
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
