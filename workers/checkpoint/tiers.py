"""Which tiers this host offers to idle actors, why a tier is missing, and how to get it.

``try_host()`` really tries everything, ``tiers_of()`` decides; ``probe()`` does both, once per
process.
"""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from artos.errors import CriuUnavailable
from artos.system.account import root_user
from workers.checkpoint.criu.find import cache_folder, find_criu, version_of

_PATIENCE = 20.0
_NEEDED = {"SYS_ADMIN": 21, "SYS_PTRACE": 19, "NET_ADMIN": 12}
"""Capabilities CRIU needs for a process in a PID namespace of its own, with their bits."""
OF_A_USER = {**_NEEDED, "CHECKPOINT_RESTORE": 40, "SETPCAP": 8}
"""What it needs if it is not root that runs it. Programs inherit them if they are ambient."""

NAMESPACE_MADE = ("unshare", "--pid", "--fork", "--mount-proc", "true")
"""A command that fails where no PID namespace can be made."""


class Tier(msgspec.Struct, frozen=True):
    """Whether this host has a tier."""

    available: bool
    reason: str
    """By what means the host has it, or why not."""
    fix: str = ""
    """A command that helps, "" if there is none."""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The results of trying. A text says what is wrong; an empty text means that all is well."""

    criu: str = ""
    """The CRIU in use, with its version."""
    no_criu: str = ""
    criu_fix: str = ""
    check: str = ""
    """The complaint of ``criu check``."""
    no_binding: str = ""
    no_rights: str = ""
    no_namespace: str = ""
    no_numactl: str = ""


@functools.cache
def probe() -> dict[str, Tier]:
    """The tiers of this host by name: memory, freeze, checkpoint, clone, fork, pin."""
    return tiers_of(try_host())


def tiers_of(found: Findings) -> dict[str, Tier]:
    """Decide which tiers there are."""
    checkpoint = clone = _checkpoint(found)
    if checkpoint.available and found.no_namespace:
        clone = Tier(False, found.no_namespace, f"{_AS_ROOT}, with util-linux")
    pin = Tier(True, "by numactl")
    if found.no_numactl:
        pin = Tier(False, found.no_numactl, "apt-get install numactl")
    return {
        "memory": Tier(True, "always: the actor stays alive and gives its slot back"),
        "freeze": Tier(True, "always: the actor is stopped (SIGSTOP) and uses no CPU"),
        "checkpoint": checkpoint,
        "clone": clone,
        "fork": Tier(True, "always: a warm process forks actors"),
        "pin": pin,
    }


_AS_ROOT = "run as root (a container: --user root --privileged)"


def _checkpoint(found: Findings) -> Tier:
    if found.no_criu:
        return Tier(False, found.no_criu, found.criu_fix)
    if found.no_rights:
        return Tier(False, found.no_rights, f"{_AS_ROOT}, or let users make user namespaces")
    if found.no_binding:
        return Tier(False, found.no_binding, "artos setup criu")
    if found.check:
        return Tier(False, f"criu check: {found.check}", "artos setup criu")
    return Tier(True, found.criu)


# -- trying --------------------------------------------------------------------------------------


def try_host() -> Findings:
    """Try everything. Takes milliseconds, because CRIU's answers about this kernel are cached."""
    some_cpu = str(min(os.sched_getaffinity(0)))
    found = Findings(
        no_binding="" if _is_installed("pycriu") else "pycriu is not installed",
        no_rights=rights_missing(),
        no_namespace=complaint(*NAMESPACE_MADE),
        no_numactl=complaint("numactl", "--physcpubind", some_cpu, "true"),
    )
    try:
        binary = find_criu()
    except CriuUnavailable as error:
        return msgspec.structs.replace(found, no_criu=error.reason, criu_fix=error.fix)
    version = ".".join(map(str, version_of(binary)))
    found = msgspec.structs.replace(found, criu=f"by CRIU {version} ({binary})")
    if root_user() != 0:
        found = msgspec.structs.replace(found, criu=f"{found.criu} in a user namespace of its own")
    if found.no_rights or root_user() != 0:
        # CRIU would only complain about missing rights. In the user namespace of an account it has
        # all that actors need, but not all that it checks (as repairing connections); the daemon
        # that made the namespace has had it check this kernel.
        return found
    return msgspec.structs.replace(found, check=_check(binary))


def rights_missing() -> str:
    """The rights this process lacks to checkpoint others; empty if it has them."""
    root = os.geteuid() == 0
    held = int(_status()["CapEff" if root else "CapAmb"], 16)
    needed = _NEEDED if root else OF_A_USER
    missing = " ".join(name for name, bit in needed.items() if not held >> bit & 1)
    if not missing:
        return ""
    who = "root lacks" if root else "CRIU needs root, or"
    return f"{who} the {'' if root else 'ambient '}capabilities {missing}{' here' if root else ''}"


def _is_installed(package: str) -> bool:
    # Importing it would take 0.1 s, also in runs that never use CRIU.
    return any((Path(folder) / package / "__init__.py").exists() for folder in sys.path)


def _status() -> dict[str, str]:
    lines = Path("/proc/self/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def complaint(*command: str | Path) -> str:
    """The last error line of a command that fails; empty if it succeeds."""
    if not shutil.which(command[0]):
        return f"{command[0]} is not installed"
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    if not done.returncode:
        return ""
    lines = (done.stderr + done.stdout).splitlines()
    errors = [line for line in lines if "Error" in line]
    last = next((line.strip() for line in reversed(errors or lines) if line.strip()), "")
    return last or f"exit status {done.returncode}"


# -- CRIU's answers about this kernel, cached -----------------------------------------------------


def _check(binary: Path) -> str:
    """The complaint of ``criu check``; a success is cached."""
    stamp = cache_folder() / "criu-check"
    stat = binary.stat()
    rights = f"{os.geteuid()} {_status()['CapEff']}"
    # Everything that the answer depends on.
    key = f"{binary} {stat.st_mtime_ns} {stat.st_size} {platform.release()} {rights}"
    with suppress(OSError):
        if stamp.read_text() == key:
            return ""
    said = complaint(binary, "check", *(() if os.geteuid() == 0 else ("--unprivileged",)))
    if not said:
        own = stamp.with_name(f"{stamp.name}.{os.getpid()}")
        with suppress(OSError):  # the folder is not writable: CRIU is asked again next time
            stamp.parent.mkdir(parents=True, exist_ok=True)
            own.write_text(key)
            own.replace(stamp)
    return said
