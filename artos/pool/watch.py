"""What a member of a pool sleeps on: its own wake-up, and the ends of other members' processes."""

from __future__ import annotations

import os
import select
import stat
from contextlib import suppress

from artos.errors import NotOurs
from artos.pool.folder import PoolFolder, reopened, wake_up_name
from artos.pool.records import Area, MemberRecord
from artos.system.closing import Closing
from artos.system.pidfd import PidFd
from artos.system.process_locks import ProcessLocks

_READ_BYTES = 4096
"""Wake-ups (a byte each) that are read at once."""


class WakeUp(Closing):
    """A FIFO that one process sleeps on and others write to. No wake-up is lost.

    Unlike a semaphore it can be polled together with the ends of processes.
    """

    def __init__(self, folder: PoolFolder, member: int) -> None:
        """Make the one of a member; a file of its name was left by a process that was killed.

        Raises:
            NotOurs: in a group's folder, another user has put something else there.
        """
        self._folder, self._name = folder, wake_up_name(member)
        folder.unlink(self._name)
        os.mkfifo(self._name, 0o600, dir_fd=folder.fileno())
        with folder.found(self._name) as found:
            if (why := folder.foreign(found, stat.S_IFIFO)) or os.fstat(
                found
            ).st_uid != os.geteuid():
                raise NotOurs(str(folder.path / self._name), why or "another user has made it")
            # Open for writing, too: else it is readable whenever no other process has it open.
            self._descriptor = reopened(found, os.O_RDWR | os.O_NONBLOCK)
        os.fchmod(self._descriptor, folder.file_mode)

    def fileno(self) -> int:
        """The descriptor, -1 once closed."""
        return self._descriptor

    def drain(self) -> bool:
        """Read all wake-ups without waiting; returns whether there were any."""
        woken = False
        with suppress(BlockingIOError):
            while len(os.read(self._descriptor, _READ_BYTES)) == _READ_BYTES:
                woken = True
            woken = True
        return woken

    def close(self) -> None:
        """Remove it; twice is fine."""
        if self._descriptor >= 0:
            self.close_descriptors()
            self._folder.unlink(self._name)

    def close_descriptors(self) -> None:
        """Close the descriptor only: a forked child does not remove its parent's wake-up."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class WakeUps(Closing):
    """The wake-ups of other members, opened as they are needed."""

    def __init__(self, folder: PoolFolder) -> None:
        self._folder = folder
        self._opened: dict[int, tuple[int, int]] = {}

    def wake(self, number: int, member: MemberRecord) -> None:
        """Wake a member; nothing happens if it has left, or if what lies there is no wake-up."""
        with suppress(OSError):
            os.write(self._descriptor(number, member.joined), b"!")

    def _descriptor(self, number: int, joined: int) -> int:
        known, descriptor = self._opened.get(number, (0, -1))
        if known != joined:  # another process has that number by now
            if descriptor >= 0:
                del self._opened[number]
                os.close(descriptor)
            with self._folder.found(name := wake_up_name(number)) as found:
                if why := self._folder.foreign(found, stat.S_IFIFO):
                    raise NotOurs(str(self._folder.path / name), why)
                descriptor = reopened(found, os.O_WRONLY | os.O_NONBLOCK)
            self._opened[number] = joined, descriptor
        return descriptor

    def close(self) -> None:
        """Close what was opened; twice is fine."""
        for _, descriptor in self._opened.values():
            os.close(descriptor)
        self._opened.clear()


class Watch(Closing):
    """A wake-up and the processes of other members, as one descriptor that can be polled."""

    def __init__(self, wake_up: WakeUp) -> None:
        self._wake_up, self._epoll = wake_up, select.epoll()
        self._epoll.register(wake_up.fileno(), select.EPOLLIN)
        self._processes: dict[tuple[int, int], PidFd] = {}
        self.must_poll = False
        """Whether some member cannot be watched, as it lives in another PID namespace."""

    def fileno(self) -> int:
        """Readable once this process was woken or another one ended; -1 once closed."""
        return -1 if self._epoll.closed else self._epoll.fileno()

    def follow(self, members: Area[MemberRecord], locks: ProcessLocks) -> bool:
        """Watch the processes of all members but this one's; False if one has ended already."""
        wanted = {(number, each.joined): number for number, each in members.items()}
        for key in [*self._processes]:
            if key not in wanted:
                process = self._processes.pop(key)
                self._epoll.unregister(process.fileno())
                process.close()
        self.must_poll, all_live = False, True
        for key, number in wanted.items():
            if key not in self._processes:
                all_live &= self._follow_member(key, number, locks)
        return all_live

    def _follow_member(self, key: tuple[int, int], number: int, locks: ProcessLocks) -> bool:
        """Watch one member's process; False if it has ended."""
        pid = locks.holder(number)
        if not pid:
            self.must_poll |= pid == 0
            return pid == 0
        if pid == os.getpid():
            return True
        try:
            process = PidFd(pid)
        except ProcessLookupError:
            return False
        if locks.holder(number) != pid:  # it ended before it was opened
            process.close()
            return False
        self._processes[key] = process
        self._epoll.register(process.fileno(), select.EPOLLIN)
        return True

    def wait(self, seconds: float) -> bool:
        """Sleep until something happens, at most ``seconds``; returns whether a process ended."""
        ready = [descriptor for descriptor, _ in self._epoll.poll(max(0.0, seconds))]
        self._wake_up.drain()
        return any(descriptor != self._wake_up.fileno() for descriptor in ready)

    def close(self) -> None:
        """Stop watching; twice is fine."""
        for process in self._processes.values():
            process.close()
        self._processes.clear()
        self._epoll.close()
        self._wake_up.close()

    def close_descriptors(self) -> None:
        """Close the descriptors only, in a forked child."""
        self._wake_up.close_descriptors()
        self.close()
