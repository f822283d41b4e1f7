"""What runs have held and used, and what that costs at given prices."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import RenderableType

from artos.errors import Refused
from artos.protocol.usage import BILL, Usage, added, nested
from artos.protocol.views import RunView
from artos.system.closest import closest
from artos.system.regular_file import contents
from deploy.client.overview import table_of

_PRICED = tuple(name for name in BILL if name != "waits")
_MB = 1e6


class Prices(msgspec.Struct, frozen=True):
    """Prices per unit by the names of ``Usage``, e.g. of a second of ``device_seconds_held``."""

    currency: str = ""
    units: dict[str, float] = {}

    @classmethod
    def load(cls, file: Path) -> Prices:
        """Read a TOML file that has a price for each name, and the ``currency``.

        Raises:
            Refused: it cannot be read, or has faults, all of which are named.
        """
        try:
            found = tomllib.loads(contents(file).decode())
        except OSError as error:
            raise Refused([f"--prices {file}: {error.strerror}"]) from error
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise Refused([f"--prices {file}: {error}"]) from error
        currency = found.pop("currency", "")
        faults = [] if isinstance(currency, str) else [f"currency must be text, not {currency!r}"]
        for name, price in found.items():
            if name not in _PRICED:
                hint = closest(name, _PRICED) or f": use {', '.join(_PRICED)}"
                faults.append(f"{name!r} has no price{hint}")
            elif isinstance(price, bool) or not isinstance(price, int | float):
                faults.append(f"{name} must be a number, not {price!r}")
            elif not (math.isfinite(price) and price >= 0):
                faults.append(f"{name} must not be negative, but is {price}")
        if faults:
            raise Refused([f"prices {file}: {fault}" for fault in faults])
        return cls(currency, {name: float(price) for name, price in found.items()})

    def cost(self, bill: Mapping[str, Any]) -> float:
        """The cost of a bill, in ``currency``."""
        return sum(price * float(bill[name]) for name, price in self.units.items())


def bill(run: RunView, prices: Prices | None) -> dict[str, Any]:
    """A run's name, user, state and ``usage``; with prices also its ``cost``."""
    usage = run.ending.get("usage") or nested(run.progress.usage if run.progress else {})
    complete = Usage().bill | usage
    complete["bytes_moved"] = int(complete["bytes_moved"])
    found = {"name": run.name, "user": run.user, "state": run.state, "usage": complete}
    return found | ({} if prices is None else {"cost": prices.cost(complete)})


def total(bills: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The sum of the usage of several runs, and of what they cost."""
    bills = [*bills]
    amounts = {name: sum(each["usage"][name] for each in bills) for name in _PRICED}
    found: dict[str, Any] = {
        "usage": amounts | {"waits": added(b["usage"]["waits"] for b in bills)}
    }
    costs = [each["cost"] for each in bills if "cost" in each]
    return found | ({"cost": sum(costs)} if costs else {})


def by_user(bills: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The sum of each user's runs."""
    users: dict[str, list[Mapping[str, Any]]] = {}
    for each in bills:
        users.setdefault(each["user"], []).append(each)
    return {user: total(mine) for user, mine in sorted(users.items())}


def table(bills: Sequence[Mapping[str, Any]], prices: Prices | None) -> RenderableType:
    """A line per run, one per user if there are several, and one for all."""
    cost = [] if prices is None else [f"cost {prices.currency}".strip()]
    found = table_of(
        "run", "user", "state", "CPU held", "used", "device held", "used", "parked", "moved",
        "waited", *cost,
    )  # fmt: skip
    lines = [*bills]
    if len(users := by_user(bills)) > 1:
        lines += [{"name": "all", "user": user, "state": ""} | sums for user, sums in users.items()]
    if len(bills) > 1:
        lines.append({"name": "all", "user": "", "state": ""} | total(bills))
    for each in lines:
        names = (each[name] for name in ("name", "user", "state"))
        usage = each["usage"]
        seconds = [f"{usage[name]:,.1f} s" for name in _PRICED[:4]]
        waits = ", ".join(f"{c} {s:,.1f} s" for c, s in usage["waits"].items() if round(s, 1))
        parked, moved = usage["parked_mb_seconds"], usage["bytes_moved"] / _MB
        amounts = (*seconds, f"{parked:,.0f} MB·s", f"{moved:,.1f} MB", waits)
        costs = [f"{each['cost']:,.4f}"] if "cost" in each else []
        found.add_row(*names, *amounts, *costs)
    return found
