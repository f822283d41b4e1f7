"""A real Prometheus for tests, from Debian's package, which is unpacked and not installed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from helpers import PATIENCE, ROOT

_FOLDER = ROOT / ".venvs" / "prometheus"
_CONFIG = """
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
scrape_configs:
- job_name: artos
  static_configs: [{targets: ["TARGET"]}]
"""


@cache
def _absent(program: str) -> str:
    """Why there is no such program, "" if there is; Debian's is fetched where that can be done."""
    if shutil.which(program) or (_FOLDER / "usr" / "bin" / program).is_file():
        return ""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        return f"{program} is not installed, and Debian's package cannot be had here"
    _FOLDER.mkdir(parents=True, exist_ok=True)
    fetch = "apt-get download prometheus || { apt-get update && apt-get download prometheus; }"
    script = f"cd {_FOLDER} && {{ {fetch}; }} && dpkg -x prometheus_*.deb . && rm prometheus_*.deb"
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return f"{program}: {done.stderr.strip()[-500:]}" if done.returncode else ""


def program(name: str) -> str:
    """The path of ``prometheus`` or ``promtool``; where there is none, the test is skipped."""
    if why := _absent(name):
        pytest.skip(why)
    return shutil.which(name) or str(_FOLDER / "usr" / "bin" / name)


def checked(text: str) -> str:
    """What `promtool check metrics` finds wrong with an exposition, "" if nothing."""
    done = subprocess.run(
        [program("promtool"), "check", "metrics"],
        input=text, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    return (done.stdout + done.stderr).strip() if done.returncode or done.stderr else ""


@dataclass(frozen=True)
class Prometheus:
    """One that runs."""

    address: str

    def query(self, text: str) -> list[dict[str, Any]]:
        """The result of a PromQL query now; a wrong one fails the test."""
        asked = urllib.parse.urlencode({"query": text})
        with urllib.request.urlopen(f"{self.address}/api/v1/query?{asked}", timeout=30) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        result: list[dict[str, Any]] = found["data"]["result"]
        return result

    def until(self, text: str, seconds: float = PATIENCE) -> list[dict[str, Any]]:
        """The result of a query once there is any."""
        end = time.monotonic() + seconds
        while not (found := self.query(text)):
            assert time.monotonic() < end, f"no result came: {text}"
            time.sleep(0.2)
        return found


@contextmanager
def scraping(target: str, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes ``HOST:PORT`` every second, with its data in ``folder``."""
    config = folder / "prometheus.yml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    config.write_text(_CONFIG.replace("TARGET", target))
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        ready, end = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE
        while True:
            assert process.poll() is None, (folder / "prometheus.log").read_text()
            assert time.monotonic() < end, "Prometheus is not ready"
            try:
                urllib.request.urlopen(f"{ready}/-/ready", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield Prometheus(ready)
    finally:
        process.terminate()
        process.wait(PATIENCE)
