"""Packages that a run brings: an environment for each list of them, made once on each machine."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.machinery import PathFinder
from importlib.metadata import distributions
from pathlib import Path

from artos.errors import DeadlineExceeded, Refused
from artos.system.archives import PACKAGES_FILE
from artos.system.by_age import by_age
from artos.system.child import command
from artos.system.locks import FileLock
from artos.system.logging_setup import to_stderr
from artos.system.private_folder import keep
from artos.system.regular_file import contents
from artos.system.user_cache import user_cache
from artos.version import VERSION

_LIST, _COMPLETE, _FAILED = "packages.txt", "complete", "failed"
_INSTALL_SECONDS = 1800.0
_FAILED_SECONDS = 600.0
"""For which a list that could not be installed is not tried again."""
_LAST_LINES = 5
_MOST, _UNUSED = 16, 30 * 86_400.0
"""Where there are more environments, those that nothing has entered for so many seconds go."""
_ARTOS = re.compile(r"artos(?![\w.-])", re.IGNORECASE)
"""A requirement of it."""
_SITES = ("site-packages", "dist-packages")


def enter(code: Path, module: str, arguments: Sequence[str]) -> None:
    """Go on as the same process in the environment of what is listed in ``code``.

    Returns if nothing is listed there, or this is that environment.

    Raises:
        Refused: it cannot be installed, and what was said.
        DeadlineExceeded: it took half an hour, here or in another process.
        OSError: nothing can be written here.
    """
    try:
        wanted = contents(code / PACKAGES_FILE)
    except FileNotFoundError:
        return
    here = Path(sys.prefix)
    if (here / _COMPLETE).exists() and contents(here / _LIST) == wanted:
        return
    words = [str(_environment(wanted)), *command(module, *arguments)[1:]]
    # Until it is ignored there (``ignore_sigterm``).
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    os.execv(words[0], words)


def _environment(wanted: bytes) -> Path:
    """The interpreter that has these packages beside those that this process has."""
    sites = [path for path in sys.path if Path(path).name in _SITES]
    have = sorted(f"{each.name}=={each.version}" for each in distributions())
    about = "\n".join([sys.version, sys.base_prefix, *sites, *have, ""])
    name = hashlib.sha256(about.encode() + wanted).hexdigest()[:16]
    folder = keep(user_cache() / "environments") / name
    lock = FileLock.take(folder.with_suffix(".lock"), seconds=_INSTALL_SECONDS)
    if lock is None:
        raise DeadlineExceeded(f"the installation of packages into {folder}", _INSTALL_SECONDS)
    with lock:
        if not (folder / _COMPLETE).exists():
            _make(folder, wanted, sites, lock)
            remove_unused(folder.parent)
        (folder / _COMPLETE).touch()
    return folder / "bin" / "python"


def remove_unused(environments: Path) -> None:
    """Remove the environments that nothing has entered for long, if there are many."""
    for used_at, path in by_age(environments.glob(f"*/{_COMPLETE}"))[:-_MOST]:
        if time.time() - used_at > _UNUSED and (
            lock := FileLock.take(path.parent.with_suffix(".lock"), seconds=0.0)
        ):
            with lock:
                shutil.rmtree(path.parent, ignore_errors=True)


def _make(folder: Path, wanted: bytes, sites: Sequence[str], lock: FileLock) -> None:
    failed = folder / _FAILED
    if failed.exists() and time.time() - failed.stat().st_mtime < _FAILED_SECONDS:
        raise Refused([contents(failed).decode()])
    to_stderr(f"artos: installing the run's packages into {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    python = str(folder / "bin" / "python")
    # Not find_spec: setuptools would take this process for that of pip, and could not be imported
    # any more where warnings are errors.
    if PathFinder.find_spec("pip"):
        # The pip beside it: it installs into the environment of the interpreter that runs it.
        install = [python, "-P", "-m", "pip", "install", "--no-input", "-q", "-r"]
    elif shutil.which("uv"):
        # With checksums in the list pip takes nothing that has none; uv does so only if told to.
        strict = ["--require-hashes"] if b"--hash=" in wanted else []
        install = ["uv", "pip", "install", "--python", python, "--quiet", *strict, "-r"]
    else:
        raise Refused(["there is neither pip nor uv here"])
    try:
        _run([sys.executable, "-P", "-m", "venv", "--without-pip", str(folder)], lock)
        (folder / _LIST).write_bytes(wanted)
        beside = "; ".join(["import site", *(f"site.addsitedir({path!r})" for path in sites)])
        for own in folder.glob("lib/python*/site-packages"):
            (own / "artos-beside.pth").write_text(f"{beside}\n")
        _run([*install, str(folder / _LIST)], lock)
        for own in folder.glob("lib/python*/site-packages"):
            _see_version(own)
    except Refused as refused:
        folder.mkdir(exist_ok=True)
        failed.write_text("\n".join(refused.faults))
        raise


def _see_version(site: Path) -> None:
    """Check that no other ARTOS stands before that of this process.

    Raises:
        Refused: one does, and which packages have brought it.
    """
    found = [*distributions(path=[str(site)])]
    for artos in found:
        if artos.name == "artos" and artos.version != VERSION:
            need = sorted(
                f"{each.name} ({need})"
                for each in found
                for need in each.requires or ()
                if _ARTOS.match(need)
            )
            raise Refused(
                [f"the run's packages bring ARTOS {artos.version}, which would stand before the "
                 f"{VERSION} of this node; it is needed by: {', '.join(need) or 'none of them'}"]
            )  # fmt: skip


def _run(words: Sequence[str], lock: FileLock) -> None:
    """Run a command that holds the lock until it ends, also if this process is killed."""
    # An engine may send SIGTERM to every process of a job; this one is not to end half-way.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, pass_fds=[lock.fileno()], start_new_session=True,
        )  # fmt: skip
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with process:
        try:
            said, _ = process.communicate(timeout=_INSTALL_SECONDS)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise DeadlineExceeded(f"{' '.join(words)} to end", _INSTALL_SECONDS) from None
            raise
    if process.returncode < 0:
        raise ChildProcessError(f"{words[0]} was ended by signal {-process.returncode}")
    if process.returncode:
        raise Refused(["\n".join(said.strip().splitlines()[-_LAST_LINES:])])
