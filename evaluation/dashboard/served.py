"""A dashboard as its users start it, and what they ask it for."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from urllib.parse import urlsplit

SECONDS = 120.0
"""For an answer."""
_LIST_SECONDS, _TIMELINE_SECONDS = 5.0, 1.5
"""How often the page asks for the list of runs, and for a timeline that it follows."""


@contextmanager
def dashboard(*words: str) -> Iterator[tuple[str, int]]:
    """Its host and port; the command is ended afterwards."""
    command = [sys.executable, "-P", "-m", "deploy.cli", "dashboard", "--port", "0", "--json"]
    process = subprocess.Popen([*command, *words], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        address = urlsplit(json.loads(process.stdout.readline())["address"])
        yield str(address.hostname), int(address.port or 0)
    finally:
        process.terminate()
        process.wait()


def answered(at: tuple[str, int], path: str) -> bytes:
    """The answer to a question, all of it.

    Raises:
        SystemExit: it is an error.
    """
    with closing(http.client.HTTPConnection(*at, timeout=SECONDS)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
    if answer.status != http.client.OK:
        raise SystemExit(f"{path}: {answer.status} {body[:200]!r}")
    return body


class Browsers:
    """Pages that are open, all of which list the runs.

    Half of them show the cluster and the others one of ``runs`` each; where they ``follow``, each
    shows the timeline of one as it grows. ``told`` counts the events that they were sent, ``drawn``
    the timelines.
    """

    def __init__(
        self, at: tuple[str, int], count: int, runs: Sequence[str], *, follow: bool = False
    ) -> None:
        self._at, self.told, self.drawn, self._over = at, 0, 0, threading.Event()
        looks: list[Callable[[], None]] = []
        for number in range(count):
            run, share = runs[number % len(runs)], number / count
            shown = run if follow or number % 2 == 0 else ""
            looks += [partial(self._listen, shown), partial(self._list, share)]
            looks += [partial(self._follow, run, share)] if follow else []
        for look in looks:
            threading.Thread(target=look, daemon=True).start()

    def _listen(self, run: str) -> None:
        with closing(http.client.HTTPConnection(*self._at, timeout=SECONDS)) as connection:
            connection.request("GET", f"/api/events?run={run}")
            answer = connection.getresponse()
            with suppress(OSError):  # the dashboard has ended
                while not self._over.is_set() and (line := answer.readline()):
                    self.told += line.startswith(b"data: ")

    def _list(self, share: float) -> None:
        for _ in self._again("/api/runs", _LIST_SECONDS, share):
            pass

    def _follow(self, run: str, share: float) -> None:
        for _ in self._again(f"/api/runs/{run}/timeline", _TIMELINE_SECONDS, share):
            self.drawn += 1

    def _again(self, path: str, seconds: float, share: float) -> Iterator[bytes]:
        time.sleep(share * seconds)
        while not self._over.wait(seconds):
            with suppress(OSError):
                yield answered(self._at, path)

    def close(self) -> None:
        """Close all of them."""
        self._over.set()
