"""Files in TOML that ``artos simulate`` reads, and the quotas in one."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from artos.errors import Refused
from artos.system.regular_file import contents
from head.daemon.quotas import Quotas, quotas_of

_TABLE = "quotas"


def tables_of(path: Path, faults: list[str]) -> dict[str, Any]:
    """What is in a file; if it cannot be read, that is added to ``faults``."""
    try:
        return tomllib.loads(contents(path).decode())
    except OSError as error:
        faults.append(error.strerror or "it cannot be read")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        faults.append(f"it is no TOML: {error}")
    return {}


def quotas_in(path: Path) -> Quotas:
    """The quotas in a file: ``head.toml``, or one that has only its tables of quotas.

    Raises:
        Refused: lists everything that is wrong with it.
    """
    faults: list[str] = []
    stored = tables_of(path, faults)
    quotas = quotas_of(stored.get(_TABLE, {}), faults)
    if not faults and not quotas:
        faults.append("it has no quota: write tables [quotas.users] and [quotas.workloads]")
    if faults:
        raise Refused([f"{path}: {fault}" for fault in faults])
    return quotas
