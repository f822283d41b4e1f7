"""A dashboard as its users start it, and what they ask it for."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from urllib.parse import urlsplit

SECONDS = 120.0
"""For an answer."""
_LIST_SECONDS, TIMELINE_SECONDS = 5.0, 1.5
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
    the timelines by page. ``errors`` are the answers that were none, after which a page asks again.
    """

    def __init__(
        self, at: tuple[str, int], count: int, runs: Sequence[str], *, follow: bool = False
    ) -> None:
        self._at, self.told, self.drawn = at, 0, Counter[int]()
        self.errors, self._died, self._over = list[str](), list[str](), threading.Event()
        looks: list[Callable[[], None]] = []
        for number in range(count):
            run, share = runs[number % len(runs)], number / count
            shown = run if follow or number % 2 == 0 else ""
            looks += [partial(self._listen, shown), partial(self._list, share)]
            looks += [partial(self._follow, number, run, share)] if follow else []
        for look in looks:
            threading.Thread(target=self._on, args=(look,), daemon=True).start()

    def check(self, errors: int = 0) -> None:
        """See that all of them look on, and that there were no more ``errors``.

        Raises:
            SystemExit: it is not so, and what they cost is less than it should be.
        """
        if wrong := [*self._died, *self.errors[errors:]]:
            raise SystemExit(f"{len(wrong)} times browsers had no answer: {wrong[:3]}")

    def _on(self, look: Callable[[], None]) -> None:
        """Look until all is over; to end before that is to die."""
        why = "no more events"
        try:
            look()
        except Exception as error:  # whatever it is, a page is missing
            why = repr(error)
        if not self._over.is_set():
            self._died.append(why)

    def _listen(self, run: str) -> None:
        with closing(http.client.HTTPConnection(*self._at, timeout=SECONDS)) as connection:
            connection.request("GET", f"/api/events?run={run}")
            answer = connection.getresponse()
            while not self._over.is_set() and (line := answer.readline()):
                self.told += line.startswith(b"data: ")

    def _list(self, share: float) -> None:
        for _ in self._again("/api/runs", _LIST_SECONDS, share):
            pass

    def _follow(self, page: int, run: str, share: float) -> None:
        for _ in self._again(f"/api/runs/{run}/timeline", TIMELINE_SECONDS, share):
            self.drawn[page] += 1

    def _again(self, path: str, seconds: float, share: float) -> Iterator[bytes]:
        time.sleep(share * seconds)
        while not self._over.wait(seconds):
            try:
                yield answered(self._at, path)
            except (OSError, SystemExit) as error:
                self.errors.append(f"{path}: {error}")

    def close(self) -> None:
        """Close all of them."""
        self._over.set()
