"""A head and workers as real daemons, each on a host of its own (``evaluation.lab.namespaces``)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil

from artos.errors import ArtosError
from artos.system.closing import Closing
from artos.transport.keys import make_keys
from evaluation.lab.namespaces import Host, Network, until, why_not

_PORT = 7700


class NoCluster(ArtosError):
    """A run on a cluster could not be made. ``why`` says what was missing, or what it said."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"no run on a cluster: {why}")


class SmallCluster(Closing):
    """A head that listens; what its processes say is in ``home``, and so are its runs."""

    def __init__(self, home: Path, config: str = "", seconds: float = 900.0) -> None:
        """``config`` is the head's.

        Raises:
            NoCluster: there are no namespaces here.
            DeadlineExceeded: the head does not listen within so many ``seconds``.
        """
        if why := why_not():
            raise NoCluster(why)
        self.home, self.runs, self._network = home, home / "runs", Network()
        self.workers: dict[str, Host] = {}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        try:
            make_keys(home / "keys")
            (home / "head.toml").write_text(config)
            self.head = self._network.host("head")
            at = f"tcp://{self.head.address}:{_PORT}"
            keys = ("--keys", str(home / "keys"))
            self.towards = ("--head", at, *keys)
            files = ("--config", str(home / "head.toml"), "--runs", str(self.runs))
            self._daemons["head"] = self._start(
                self.head, "head", "head", "--listen", at, *keys, *files
            )
            until("the head", lambda: "listens at" in self.said("head"), seconds)
        except BaseException:
            self.close()
            raise

    def worker(self, name: str, slots: int = 2) -> Host:
        """Start a worker, on the host that it had before if there is one."""
        host = self.workers.get(name) or self._network.host(name)
        self.workers[name] = host
        words = ("worker", *self.towards, "--name", name, "--slots", str(slots))
        self._daemons[name] = self._start(host, name, *words)
        return host

    def members(self) -> list[psutil.Process]:
        """Processes that serve runs: all but the daemons and the runs' own processes."""
        found: list[psutil.Process] = []
        for name, daemon in self._daemons.items():
            process = psutil.Process(daemon.pid)
            below = process.children(recursive=True)
            runs = process.children() if name == "head" else []
            found += [each for each in below if each not in runs]
        return found

    def kill(self, name: str) -> None:
        """Kill all there is on a worker's host at once."""
        for pid in self.workers[name].processes():
            psutil.Process(pid).kill()
        self._daemons[name].wait()

    def artos(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a command of a user's on the head's host; ``name`` is that of its outputs."""
        return self._start(self.head, name, *words, *self.towards)

    def said(self, name: str) -> str:
        """What a process wrote to standard error."""
        return (self.home / f"{name}.err").read_text()

    def _start(self, host: Host, name: str, *words: str) -> subprocess.Popen[bytes]:
        own = {"XDG_CACHE_HOME": str(self.home / name)}
        out, err = ((self.home / f"{name}.{kind}").open("wb") for kind in ("out", "err"))
        with out, err:
            return host.python(
                "-P", "-m", "deploy.cli", *words, environment=own, stdin=subprocess.DEVNULL,
                stdout=out, stderr=err, cwd=self.home,
            )  # fmt: skip

    def close(self) -> None:
        """End all of it."""
        self._network.close()
