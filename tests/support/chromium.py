"""A headless Chromium that is told what to do over its DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_SECONDS = 60.0


class Tab:
    """A tab; ``errors`` are what its page has thrown or logged as an error."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.tell(f"{domain}.enable")

    def tell(self, method: str, **params: Any) -> Any:
        """Have it do something; returns its answer."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            heard = json.loads(self._socket.recv(timeout=_SECONDS))
            if heard.get("id") == number:
                assert "error" not in heard, (method, heard["error"])
                return heard["result"]
            self._note(heard)

    def _note(self, heard: dict[str, Any]) -> None:
        params = heard.get("params", {})
        if heard["method"] == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif heard["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def open(self, address: str) -> None:
        """Go there."""
        self.tell("Page.navigate", url=address)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is, as JSON has it."""
        told = self.tell(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def wait(self, expression: str, seconds: float = _SECONDS) -> Any:
        """Wait until an expression is true; returns its value."""
        until = time.monotonic() + seconds
        while not (found := self.value(expression)):
            assert time.monotonic() < until, f"not within {seconds:g} s: {expression}"
            time.sleep(0.05)
        return found

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Move the mouse, press or release its button, or turn its wheel."""
        self.tell("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, **more)

    def picture(self, file: Path) -> Path:
        """A picture of the page, as PNG."""
        file.write_bytes(base64.b64decode(self.tell("Page.captureScreenshot")["data"]))
        return file


@contextmanager
def browsing(folder: Path, size: tuple[int, int] = (1360, 860)) -> Iterator[Tab]:
    """A tab of a new browser whose files are in ``folder``; skips where there is no Chromium."""
    if (found := next(filter(None, map(shutil.which, _NAMES)), None)) is None:
        pytest.skip("no Chromium is installed")
    command = (
        found, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-first-run", "--remote-debugging-port=0", f"--user-data-dir={folder}",
        f"--window-size={size[0]},{size[1]}", "about:blank",
    )  # fmt: skip
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        with connect(_address(folder, process), open_timeout=_SECONDS, max_size=None) as browser:
            first = _target(browser)
        with connect(first, open_timeout=_SECONDS, ping_timeout=None, max_size=None) as socket:
            yield Tab(socket)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(folder: Path, process: subprocess.Popen[bytes]) -> str:
    told = folder / "DevToolsActivePort"
    until = time.monotonic() + _SECONDS
    while not (told.exists() and told.read_text().count("\n")):
        assert process.poll() is None, (folder / "chromium.log").read_text(errors="replace")[-2000:]
        assert time.monotonic() < until, "Chromium does not say where it listens"
        time.sleep(0.05)
    port, path = told.read_text().splitlines()[:2]
    return f"ws://127.0.0.1:{port}{path}"


def _target(browser: ClientConnection) -> str:
    browser.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
    while (heard := json.loads(browser.recv(timeout=_SECONDS))).get("id") != 1:
        pass
    page = next(x["targetId"] for x in heard["result"]["targetInfos"] if x["type"] == "page")
    address = browser.remote_address
    return f"ws://{address[0]}:{address[1]}/devtools/page/{page}"
