"""The page daemon, which serves a lazily restored process its pages as it touches them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from artos.errors import RestoreFailed
from artos.system.pidfd import PidFd
from workers.checkpoint.criu.log import culprit, error_lines, read_log
from workers.checkpoint.images import Image

_LOG = "lazy-pages.log"
_PATIENCE = 5.0


class LazyPages:
    """Serves one restored process until it has all its pages; poll until that is so.

    The process must not be dumped earlier. If the page daemon fails the process is killed, since it
    would read zeros where it had data.
    """

    def __init__(self, criu: Path, image: Image) -> None:
        self._image = image.name
        self._served: PidFd | None = None
        self.work = image.folder / image.next_name("lazy")
        self.work.mkdir(mode=0o700)
        self.folder = os.open(self.work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.ready, said = os.pipe()
        try:
            self._process = subprocess.Popen(
                [criu, "lazy-pages", "--images-dir", image.folder, "--work-dir", self.work,
                 "--log-file", _LOG, "--status-fd", str(said)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=(said,), start_new_session=True,
            )  # fmt: skip
        except BaseException:
            self._clean()
            raise
        finally:
            os.close(said)

    def waits(self, command: Sequence[str]) -> list[str]:
        """The command, wrapped to start once the page daemon listens; ``ready`` must be its stdin.

        So the command waits for the page daemon, and this process does not.
        """
        return ["sh", "-c", 'read -r _; exec "$@" </dev/null', "sh", *command]

    def serve(self, pid: int) -> None:
        """The restored process is ``pid``."""
        with suppress(ProcessLookupError):
            self._served = PidFd(pid)
        self._let_go()

    def _let_go(self) -> None:
        """Close the descriptors that only the restoring CRIU needed."""
        for descriptor in (self.ready, self.folder):
            if descriptor >= 0:
                os.close(descriptor)
        self.ready = self.folder = -1

    def poll(self) -> bool:
        """Whether the process has all its pages. Never waits.

        Raises:
            RestoreFailed: the page daemon died; the process was killed, its parent must reap it.
        """
        status = self._process.poll()
        if status is None:
            return False
        log = read_log(self.work / _LOG)
        if status != 0:
            self._kill_served()
        self._clean()
        if status != 0:
            raise RestoreFailed(
                self._image, f"its page daemon ended: {culprit(log).words}", error_lines(log)
            )
        return True

    def close(self) -> str:
        """End the page daemon and, if pages are still missing, the process; returns the log."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(_PATIENCE)
            self._kill_served()
        log = read_log(self.work / _LOG)
        self._clean()
        return log

    def _kill_served(self) -> None:
        if self._served is not None:
            self._served.signal(signal.SIGKILL)

    def _clean(self) -> None:
        self._let_go()
        if self._served is not None:
            self._served.close()
            self._served = None
        shutil.rmtree(self.work, ignore_errors=True)
