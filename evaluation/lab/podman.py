"""A real podman in a layer, and the image of ARTOS, built of what package registries give."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evaluation.core.sources import ROOT
from evaluation.lab.layer import Layer, ended, layer, printed
from workers.checkpoint.criu.find import cache_folder

PACKAGES = ("podman", "runc", "mmdebstrap")
CONTAINERFILE = ROOT / "deploy" / "launchers" / "container" / "Containerfile"
_BASE = "debian:bookworm-slim"
_PYTHON = "3.11"
"""Of the base image."""
_SLIM = ("doc", "groff", "info", "linda", "lintian", "locale", "man")
"""In /usr/share, what slim images are made without."""
_SECONDS = 1200.0
"""Building takes minutes, and many of them on a machine that is busy."""
_CONTAINERS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
_STORAGE = """
[storage]
driver = "overlay"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""
_PIP = """
[global]
no-index = true
find-links = /wheels
"""
_GROUPS = Path("/sys/fs/cgroup")


class Podman:
    """The commands of a podman that runs in a layer; made by ``podman``."""

    def __init__(self, there: Layer) -> None:
        self.there, self.folder = there, there.folder

    def tried(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What became of one of its commands.

        Raises:
            LayerFailed: it did not end in time.
        """
        return self.there.tried("podman", *words, seconds=_SECONDS)

    def run(self, *words: str) -> str:
        """What one of its commands prints.

        Raises:
            LayerFailed: it failed.
        """
        return printed(" ".join(("podman", *words)), self.tried(*words))

    def build(self, target: str, image: str) -> None:
        """Build a stage of our Containerfile, without any registry of images.

        Its base is bootstrapped as Debian's own is, Python's packages are downloaded beforehand,
        and CRIU is the one that was built on this machine, if one was.

        Raises:
            LayerFailed: it cannot be built.
        """
        base, wheels, secret = (self.folder / name for name in ("base.tar", "wheels", "pip.conf"))
        without = (f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _SLIM)
        suite = _BASE.partition(":")[2].partition("-")[0]
        bootstrap = ("mmdebstrap", "--quiet", "--variant=minbase", *without, suite, str(base))
        printed("mmdebstrap", self.there.tried(*bootstrap, seconds=_SECONDS))
        self.run("import", "--quiet", str(base), _BASE)
        base.unlink()
        secret.write_text(_PIP)
        _download(wheels)
        cache = cache_folder()
        volumes = [f"{wheels}:/wheels:ro"]
        if any(cache.glob("criu-*/bin/criu")):
            volumes.append(f"{cache}:/cache:ro")
        self.run(
            "build", "--network", "host", "--target", target, "--tag", image,
            "--secret", f"id=pip.conf,src={secret}", *(f"--volume={each}" for each in volumes),
            "--file", str(CONTAINERFILE), str(ROOT),
        )  # fmt: skip
        shutil.rmtree(wheels)


@contextmanager
def podman(folder: Path) -> Iterator[Podman]:
    """A podman whose images lie in ``folder``; nothing of it is left afterwards."""
    try:
        with layer(folder, *PACKAGES, provides=["podman", "mmdebstrap"]) as there:
            settings = {"containers.conf": _CONTAINERS, "storage.conf": _STORAGE}
            for name, text in settings.items():
                (folder / name).write_text(text.format(folder=folder))
            there.variables |= {
                "CONTAINERS_CONF": str(folder / "containers.conf"),
                "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            }
            found = Podman(there)
            try:
                yield found
            finally:
                for _ in ("those that use another's network", "the others"):
                    found.tried("rm", "--all", "--force", "--time", "5")
    finally:
        for name in ("graph", "run", "wheels"):
            shutil.rmtree(folder / name, ignore_errors=True)
        for group in sorted(_GROUPS.glob("*/libpod_parent/**"), reverse=True):
            with suppress(OSError):  # another podman uses it
                group.rmdir()


def _download(folder: Path) -> None:
    """The wheels that ARTOS needs in the image, as this machine's pip finds them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    needed = (
        *project["build-system"]["requires"], *project["project"]["dependencies"],
        *extras["elastic"], *extras["kubernetes"],
    )  # fmt: skip
    words = (
        sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--dest", str(folder),
        "--constraint", str(ROOT / "constraints.txt"), "--only-binary", ":all:",
        "--python-version", _PYTHON, *needed,
    )  # fmt: skip
    printed("pip download", ended(words, _SECONDS))
