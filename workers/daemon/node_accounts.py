"""The system accounts of users on this node, under which its daemon starts processes of runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from artos.errors import Refused
from artos.system.account import HOW_TO_SWITCH, SystemAccount, may_switch

NO_SWITCH = f"the worker's daemon may not switch: {HOW_TO_SWITCH}"


@dataclass
class NodeAccounts:
    """The accounts of the machine on which ``node`` is."""

    node: str
    group: int | None = None
    """The group of the pool in which processes of all accounts share CPUs and devices, if any."""

    def named(self, name: str, ours: Path, *folders: Path) -> SystemAccount | None:
        """The account of that name, which must enter these folders; None: this daemon's.

        It may pass through ``ours``, a folder of this daemon, to what is its own in there.

        Raises:
            Refused: this machine has not that account, or it is root's, or it cannot use our Python
                or enter a folder.
        """
        if not name or not may_switch():
            return None
        ours.chmod(0o711)
        elsewhere = ""
        try:
            account = SystemAccount.named(name)
            elsewhere = "; a worker keeps its files where XDG_CACHE_HOME says (as /var/cache)"
            account.require(ours, *folders)
        except Refused as refused:
            faults = [f"node {self.node}: {fault}{elsewhere}" for fault in refused.faults]
            raise Refused(faults) from None
        more = () if self.group is None else (self.group,)
        return replace(account, groups=(*account.groups, *more))
