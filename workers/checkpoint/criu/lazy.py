"""The daemon that hands out the pages of a lazily restored process as it touches them."""

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
    """Serves one restored process until all its pages are there; poll it until it says so.

    Its process must not be dumped before that. If the daemon fails, the process would read zeros
    where it had data, so it is killed.
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
        """The command, begun only when the daemon listens: with ``ready`` as its standard input.

        So the command waits, and this process does not.
        """
        return ["sh", "-c", 'read -r _; exec "$@" </dev/null', "sh", *command]

    def serve(self, pid: int) -> None:
        """The process that it serves was restored."""
        with suppress(ProcessLookupError):
            self._served = PidFd(pid)
        self._let_go()

    def _let_go(self) -> None:
        """Close what only the restoring CRIU needed."""
        for descriptor in (self.ready, self.folder):
            if descriptor >= 0:
                os.close(descriptor)
        self.ready = self.folder = -1

    def poll(self) -> bool:
        """Whether all pages are there. Never waits.

        Raises:
            RestoreFailed: the daemon died; its process was killed; its owner reaps it.
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
        """End the daemon and, if it was not done, its process, which would miss its pages.

        Returns its log.
        """
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
