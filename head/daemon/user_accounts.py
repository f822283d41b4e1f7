"""The system accounts of users: which one a run has, and where its processes meet the head."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from artos.errors import NotAllowed, Refused
from artos.protocol.control import RunNews, RunUp
from artos.protocol.message import Message
from artos.system import private_folder
from artos.system.account import HOW_TO_SWITCH, SystemAccount, give, may_switch, require_owner
from artos.system.closing import Closing
from artos.transport.authorizer import Authorizer
from artos.transport.keys import names
from artos.transport.messenger import Door
from artos.transport.roles import Holder, KeyRole, holder_of

OTHERS = "*"
"""In the table, all users that are not named."""
_FOLDER = ".accounts"
_LONGEST_SOCKET = len("ipc://") + 100


def account_faults(table: Mapping[str, str]) -> list[str]:
    """What is wrong with a table of accounts: those that this machine has not, and root's."""
    faults = [
        f"accounts: {user!r} cannot be a user: write the name of a key (artos keys --user NAME)"
        for user in table
        if user != OTHERS and holder_of(f"user:{user}") != Holder(KeyRole.USER, user)
    ]
    for user, name in table.items():
        try:
            SystemAccount.named(name)
        except Refused as refused:
            faults += [f"accounts: {user}: {fault}" for fault in refused.faults]
    return faults


class UserAccounts(Closing):
    """The accounts in the ``table`` of a head whose runs are in ``runs``; ``others`` are runs' own.

    Each has a folder there, for itself alone, with what the head hands to its run processes, which
    are also in ``group``. A head that is not root has the table, and switches to none of them.

    Raises:
        Refused: an account cannot use the Python of this head, or enter its folder of runs; lists
            all faults at once.
    """

    def __init__(
        self, table: Mapping[str, str], runs: Path, others: Iterable[str] = (),
        group: int | None = None,
    ) -> None:  # fmt: skip
        self._table, self._runs = table, runs
        self._accounts: dict[str, SystemAccount] = {}
        names = {*table.values(), *others}
        if not names or not may_switch():
            return
        faults: list[str] = []
        for name in sorted(names):
            account = SystemAccount.named(name)
            more = () if group is None else (group,)
            self._accounts[name] = replace(account, groups=(*account.groups, *more))
            try:
                account.require(runs)
            except Refused as refused:
                faults += refused.faults
            if (excess := len(os.fsencode(self.endpoint(name))) - _LONGEST_SOCKET) > 0:
                faults.append(f"--runs {runs} is too long for a socket: shorten it by {excess}")
        if faults:
            raise Refused([*dict.fromkeys(faults)])
        private_folder.keep(runs / _FOLDER).chmod(0o711)
        for name, account in self._accounts.items():
            give(runs / _FOLDER / name, account)

    def __repr__(self) -> str:
        return f"<UserAccounts {dict(self._table)}>"

    def __bool__(self) -> bool:
        return bool(self._table or self._accounts)

    @property
    def all(self) -> list[SystemAccount]:
        """Those under which this head starts processes."""
        return [*self._accounts.values()]

    @property
    def doors(self) -> list[Door]:
        """The sockets of all accounts."""
        return [Door(self.endpoint(name), each) for name, each in self._accounts.items()]

    def named_for(self, user: str) -> str:
        """The account of a user, "" if the runs of that user have the daemons'."""
        return self._table.get(user, self._table.get(OTHERS, ""))

    def unused(self) -> str:
        """Why this head starts no process under these accounts, "" if it does."""
        if not self._table or self._accounts:
            return ""
        return f"the head is user {os.geteuid()} and may not switch: {HOW_TO_SWITCH}"

    def warnings(self, keys: Path) -> Iterator[str]:
        """What an administrator should know at the start, given the folder of the users' keys."""
        users = names(keys, KeyRole.USER)
        if why := self.unused():
            yield f"run processes do not get the accounts of head.toml: {why}"
        if keyless := sorted(self._table.keys() - {OTHERS, *users}):
            yield f"head.toml has accounts of users without a key: {', '.join(keyless)}"
        others = sorted({*users} - self._table.keys())
        if self._accounts and others and OTHERS not in self._table:
            yield (
                f"runs of {', '.join(others)} are root's, as head.toml has no account for them: "
                'name one, or one for all others ("*")'
            )

    def of(self, name: str) -> SystemAccount | None:
        """The account of a run that has that ``name``; None: the head's own."""
        return self._accounts.get(name)

    def place(self, name: str) -> Path | None:
        """Where the head hands things to processes of an account; None: where it likes."""
        return self._runs / _FOLDER / name if name in self._accounts else None

    def endpoint(self, name: str) -> str:
        """Where run processes of an account reach the head; "": where all others do."""
        return f"ipc://{place}/head" if (place := self.place(name)) else ""

    def close(self) -> None:
        """Remove the sockets; runs that live on find those of the next head in their place."""
        for name, account in self._accounts.items():
            with account.acting():
                Path(self.endpoint(name).removeprefix("ipc://")).unlink(missing_ok=True)

    def require(self, folder: Path, account: SystemAccount | None) -> None:
        """Make sure that a run of this account may have that folder, which need not be there.

        Raises:
            Refused: it is another account's, or lies in a run of one.
        """
        if self._accounts:
            for above in folder.parents:
                if self._runs in above.parents:
                    require_owner(above, None)
            require_owner(folder, account)

    def give(self, folder: Path, account: SystemAccount | None) -> None:
        """Have the folder of a run be the account's own.

        Raises:
            Refused: as ``require``.
            OSError: it cannot be made.
        """
        self.require(folder, account)
        if account is not None:
            folder.parent.mkdir(parents=True, exist_ok=True)
            give(folder, account)


class OwnRuns(Authorizer):
    """On a socket of this machine: processes of an account may speak for its own runs only.

    ``account_of`` returns the name of a run's account. A peer's key is the number of its user,
    which the kernel vouches for; it is not asked where there are no accounts.
    """

    def __init__(self, accounts: UserAccounts, account_of: Callable[[str], str]) -> None:
        super().__init__()
        self._account_of = account_of
        self._users = {each.name: str(each.uid) for each in accounts.all}

    def claim(self, name: str, key: str, now: float) -> bool:
        """A process of the user ``key`` calls itself ``name``, as a run is called."""
        ours = key == str(os.geteuid())
        if self._users and not ours and key != self._users.get(self._account_of(name)):
            raise NotAllowed(f"a process of user {key} may not speak for run {name!r}")
        return super().claim(name, key, now)

    def permit(self, name: str, message: Message) -> None:
        """What a run says is about itself."""
        if isinstance(message, RunUp | RunNews) and message.run != name:
            raise NotAllowed(f"run {name!r} may not speak for run {message.run!r}")
        super().permit(name, message)
