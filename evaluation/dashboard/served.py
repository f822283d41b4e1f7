"""A dashboard as its users start it, and what they ask it for."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from urllib.parse import urlsplit

SECONDS = 120.0
"""For an answer."""
_LIST_SECONDS = 5.0
"""How often the page asks for the list of runs."""


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
    """So many pages that are open: half show the cluster, the others a run, and all list the runs.

    ``told`` counts the events that they were sent.
    """

    def __init__(self, at: tuple[str, int], count: int, run: str) -> None:
        self._at, self.told, self._over = at, 0, threading.Event()
        self._threads = [
            threading.Thread(target=look, args=(argument,), daemon=True)
            for number in range(count)
            for look, argument in (
                (self._listen, "" if number % 2 else run),
                (self._list, number / count),
            )
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self, run: str) -> None:
        with closing(http.client.HTTPConnection(*self._at, timeout=SECONDS)) as connection:
            connection.request("GET", f"/api/events?run={run}")
            answer = connection.getresponse()
            with suppress(OSError):  # the dashboard has ended
                while not self._over.is_set() and (line := answer.readline()):
                    self.told += line.startswith(b"data: ")

    def _list(self, share: float) -> None:
        time.sleep(share * _LIST_SECONDS)
        while not self._over.wait(_LIST_SECONDS):
            with suppress(OSError):
                answered(self._at, "/api/runs")

    def close(self) -> None:
        """Close all of them."""
        self._over.set()
