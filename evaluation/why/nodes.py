"""A head and a worker for one run: hosts of their own, with a link that may be slow."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from artos.errors import ArtosError
from artos.transport.keys import make_keys
from evaluation.lab.namespaces import Host, Network, until, why_not
from evaluation.why.cases import QUOTA, Case, Settings, Way, words_of

_MBIT = 100.0
_PORT = 7700
_SECONDS = 900.0


class NoCluster(ArtosError):
    """A run on a cluster could not be made. ``why`` says what was missing, or what it said."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"no run on a cluster: {why}")


def on_cluster(case: Case, settings: Settings, home: Path) -> Path:
    """Make the run of a case with these settings; returns its folder.

    Raises:
        NoCluster: there are no namespaces here, or the run failed.
    """
    if why := why_not():
        raise NoCluster(why)
    make_keys(home / "keys")
    (home / "head.toml").write_text(_config(settings))
    with Network() as network:
        head, worker = network.host("head"), network.host("worker")
        at = f"tcp://{head.address}:{_PORT}"
        towards = ("--head", at, "--keys", str(home / "keys"))
        files = ("--config", str(home / "head.toml"), "--runs", str(home / "runs"))
        heard = home / "head.err"
        _start(head, home, "head", "head", "--listen", at, "--keys", str(home / "keys"), *files)
        until("the head", lambda: "listens at" in heard.read_text(), _SECONDS)
        _start(worker, home, "worker", "worker", *towards, "--name", "w", "--slots", "2")
        if case.way is Way.LINK:
            worker.throttle(_MBIT)
        words = ("submit", case.workload, *words_of(settings), *towards, "--wait", "--json")
        submit = _start(head, home, "submit", *words)
        if submit.wait(_SECONDS):
            raise NoCluster((home / "submit.err").read_text()[-2_000:])
    (config,) = (home / "runs").glob("*/config.json")  # the head's own files are there, too
    return config.parent


def _config(settings: Settings) -> str:
    if QUOTA not in settings:
        return ""
    return f"[quotas.users]\nowner = {{ slots = {json.loads(settings[QUOTA])} }}\n"


def _start(host: Host, home: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    own = {"XDG_CACHE_HOME": str(home / name)}
    with (home / f"{name}.out").open("wb") as out, (home / f"{name}.err").open("wb") as err:
        return host.python(
            "-P", "-m", "deploy.cli", *words, environment=own, stdin=subprocess.DEVNULL,
            stdout=out, stderr=err, cwd=home,
        )  # fmt: skip
