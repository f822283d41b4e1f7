"""Options of ``artos head``: a TOML file, and flags that override it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import psutil

from artos.clock import LONGEST
from artos.errors import Refused
from artos.pool.devices import device_faults, places
from artos.system import gpus
from artos.system.archives import LIMIT_MB
from artos.system.closest import closest
from artos.system.memory_limit import memory_left
from artos.system.regular_file import contents
from artos.transport.address import MOST_PORT, is_endpoint
from artos.transport.roles import OWNER
from head.daemon.quotas import Quotas, quotas_of
from head.daemon.roster import most_runs
from head.daemon.run import State
from head.daemon.user_accounts import account_faults

_OF_ENGINES = ("listen", "keys", "runs", "publish", "end_file")
"""What ``artos up`` tells a head itself."""
STOP_SECONDS = 60.0
_POSITIVE = ("deadline", "archive_mb", "stop_seconds")


class HeadOptions(msgspec.Struct, frozen=True):
    """The options of a head; names and units are the same in ``head.toml``."""

    listen: str
    """An endpoint: tcp://IP:PORT."""
    keys: Path
    runs: Path = Path("runs")
    deadline: float = 15.0
    """Seconds of silence after which a node counts as gone."""
    archive_mb: float = LIMIT_MB
    """The largest size of a run's code."""
    stop_seconds: float = STOP_SECONDS
    """How long runs may take to finish and save when the head is told to stop."""
    devices: str = ""
    """What the learners on this machine lease, as in ``cuda:0=2,cpu:a``."""
    runs_at_once: int = 0
    """How many runs may have a process here; 0: as many as cores and memory can carry."""
    admins: tuple[str, ...] = (OWNER.name,)
    """Users who may stop, scale, resume and read everybody's runs, not just their own, and say that
    a node's machine is taken back."""
    publish: Path | None = None
    """A file into which the head writes its endpoint, so that it may listen at port 0."""
    end_file: Path | None = None
    """If given, runs end with a head that is told to stop only if this file exists; else they save
    and go on with the next head."""
    accounts: dict[str, str] = {}
    """The system account of each user's runs ("*": of all others'); only in the file."""
    quotas: Quotas = Quotas()
    """What the runs of a user or a workload may hold; only in the file."""

    @property
    def host(self) -> str:
        """The host part of ``listen``."""
        return self.listen.removeprefix("tcp://").rpartition(":")[0]

    @property
    def devices_here(self) -> str:
        """What learners on this machine may use: as told, or all GPUs."""
        return self.devices or ",".join(f"cuda:{gpu}" for gpu in range(gpus.count() or 0))

    @property
    def at_once(self) -> int:
        """How many runs this head carries: as told, or as many as its machine can."""
        allowed = memory_left()
        memory = psutil.virtual_memory().total
        memory = memory if allowed is None else min(memory, allowed)
        return self.runs_at_once or most_runs(os.cpu_count() or 1, memory)


def head_options(config: Path | None, flags: Mapping[str, Any]) -> HeadOptions:
    """The options in a file, overridden by the ``flags`` that were given (are not None).

    Relative paths in the file begin at its folder.

    Raises:
        Refused: lists all faults at once.
    """
    faults: list[str] = []
    stored: dict[str, Any] = {}
    if config is not None:
        try:
            stored = tomllib.loads(contents(config).decode())
        except OSError as error:
            faults.append(f"{config}: {error.strerror}")
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            faults.append(f"{config} is no TOML: {error}")
        for name in ("keys", "runs", "publish", "end_file"):
            if isinstance(stored.get(name), str):
                stored[name] = str(config.resolve().parent / stored[name])
    values = stored | {name: value for name, value in flags.items() if value is not None}
    quotas = quotas_of(values.pop("quotas", {}), faults)
    hints = get_type_hints(HeadOptions)
    fitted: dict[str, Any] = {}
    for name, value in values.items():
        if name not in hints:
            faults.append(f"unknown option {name!r}{closest(name, list(hints))}")
            continue
        try:
            fitted[name] = _converted(name, value, hints[name])
        except (msgspec.ValidationError, ValueError) as error:
            faults.append(f"{name} = {value!r}: {str(error).lower()}")
    faults += [
        f"{name} is missing: give --{name} or write it into head.toml"
        for name in ("listen", "keys")
        if name not in values
    ]
    faults += device_faults(devices := str(fitted.get("devices", "")))
    faults += account_faults(fitted.get("accounts", {}))
    faults += quotas.beyond(slots=0, devices=places(devices))
    if faults:
        raise Refused(faults)
    return HeadOptions(**fitted, quotas=quotas)


def config_for_engine(config: Path) -> str:
    """The text of a ``head.toml`` for a head that an engine starts somewhere.

    Raises:
        Refused: lists all faults at once.
    """
    faults: list[str] = []
    try:
        head_options(config, {"listen": "tcp://0.0.0.0:0", "keys": Path()})
    except Refused as refused:
        faults += refused.faults
    with suppress(OSError, ValueError):  # these are among the faults
        text = contents(config).decode()
        given = tomllib.loads(text)
        faults += (
            f"{config}: `artos up` itself tells the head {name}: remove the line"
            for name in _OF_ENGINES
            if name in given
        )
    if faults:
        raise Refused(faults)
    return text


def see_quotas(options: HeadOptions, state: State) -> None:
    """Check new quotas against the nodes that an earlier head knew.

    Raises:
        Refused: they are larger than all these nodes together, so they would never be reached.
    """
    slots = sum(node.slots for node in state.nodes)
    if options.quotas != state.quotas and (faults := options.quotas.beyond(slots, devices=0)):
        raise Refused(faults)


def _converted(name: str, value: Any, kind: Any) -> Any:
    if kind in (Path, Path | None):
        return Path(msgspec.convert(str(value) if isinstance(value, Path) else value, str))
    value = msgspec.convert(value, kind)
    if name in _POSITIVE and not 0 < value <= LONGEST:
        raise ValueError(f"must be positive, at most {LONGEST:g}")
    if name == "runs_at_once" and value < 1:
        raise ValueError("must be 1 or more")
    if name == "listen" and not is_endpoint(value):
        raise ValueError(f"write tcp://ip:port, with a port of at most {MOST_PORT}")
    return value
