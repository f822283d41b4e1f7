"""Notices that this machine is about to be taken back, other than by a signal: a file, or a URL."""

from __future__ import annotations

import http
import http.client
import logging
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from artos.system.closing import Closing
from artos.system.faults import Seldom

_log = logging.getLogger(__name__)
PERIOD = 2.0
"""Seconds between two looks: clouds give half a minute at least."""
_ANSWER_SECONDS = 2.0
_MOST = 4096
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Metadata services are on this machine's link: no proxy reaches them."""
_NO = (b"", b"FALSE", b"NONE", b"{}")
"""Bodies that say that nothing is to happen."""
_HEADERS = {"Metadata-Flavor": "Google"}
"""Without it one of the clouds refuses to answer; others do not mind."""


def fault(place: str) -> str:
    """What is wrong with the name of a file or URL, "" if nothing is."""
    if "://" in place and not place.startswith(("http://", "https://")):
        return f"a notice at {place}: write a file, or http://..."
    return ""


class Notices(Closing):
    """Calls ``leave`` with the words of the notice, once it is there.

    A file that exists is one, and so is an answer of 200 whose body says more than "no". A URL that
    does not answer is none. One that is there already is heard before this is made.
    """

    def __init__(self, place: str, leave: Callable[[str], object], period: float = PERIOD) -> None:
        self._place, self._leave, self._period = place, leave, period
        self._over, self._seldom = threading.Event(), Seldom(_log)
        self._thread = threading.Thread(target=self._go_on, name="notices", daemon=True)
        self._look()
        self._thread.start()

    def close(self) -> None:
        """Look no longer. May be called twice."""
        self._over.set()
        self._thread.join(_ANSWER_SECONDS + self._period)

    def _go_on(self) -> None:
        while not self._over.wait(self._period):
            self._look()

    def _look(self) -> None:
        is_url = self._place.startswith(("http://", "https://"))
        if said := self._answer() if is_url else self._file():
            self._over.set()
            self._leave(said)

    def _file(self) -> str:
        try:
            there = Path(self._place).exists()
        except OSError as error:  # of a folder that is mounted from elsewhere, perhaps for a moment
            self._seldom.warning("%s cannot be looked for: %s", self._place, error)
            return ""
        return f"{self._place} is there" if there else ""

    def _answer(self) -> str:
        request = urllib.request.Request(self._place, headers=_HEADERS)
        try:
            with _direct.open(request, timeout=_ANSWER_SECONDS) as answer:
                body = answer.read(_MOST).strip()
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != http.HTTPStatus.NOT_FOUND:  # else there is no notice
                said = "%s answers %d: no notice would be heard; see whether it asks for a token"
                self._seldom.warning(said, self._place, error.code)
            return ""
        except (OSError, http.client.HTTPException) as error:
            self._seldom.warning("%s does not answer: %s", self._place, error)
            return ""
        if body.upper() in _NO:
            return ""
        return f"{self._place} says {body[:200].decode(errors='replace')}"
