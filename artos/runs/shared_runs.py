"""Whether a worker has the head's folder of runs: it finds in it what the head has written."""

from __future__ import annotations

import ipaddress
import os
import secrets
from pathlib import Path

from artos.errors import Refused
from artos.system.durable import write_durably
from artos.system.machine import boot_id
from artos.system.regular_file import contents

_STATE, _FILE = ".head", "shared"


def write_token(runs: Path) -> str:
    """What a worker must find to have this folder of runs, too; the same for all later heads.

    Raises:
        OSError: it cannot be written.
    """
    file = runs / _STATE / _FILE
    try:
        token, boot = contents(file).decode().split()
    except (OSError, ValueError):
        token, boot = secrets.token_hex(16), ""
    if boot != boot_id():
        write_durably(file, f"{token} {boot_id()}\n".encode(), 0o600)
    return token


def read_token(runs: Path, host: str) -> str:
    """What the head has written there; ``host`` is this machine's address on the way to it.

    Raises:
        Refused: this is not the head's folder, or others could not reach a run on this machine.
    """
    file = runs / _STATE / _FILE
    try:
        token, boot = contents(file).decode().split()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is damaged"
        raise Refused([f"{file} cannot be read here: {why}"]) from error
    if not os.access(runs, os.R_OK | os.W_OK | os.X_OK):
        raise Refused([f"{runs} cannot be written here"])
    if boot != boot_id() and ipaddress.ip_address(host.strip("[]")).is_loopback:
        raise Refused([f"the head on another machine is reached at {host}, as through a tunnel"])
    return token
