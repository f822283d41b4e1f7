"""The table of accounts in head.toml: refused at the door, and what a head makes of it."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from artos.errors import NotAllowed, Refused
from artos.protocol.control import RunNews, RunUp
from artos.system.account import SystemAccount, may_switch
from artos.transport.keys import make_keys
from artos.transport.roles import Holder, KeyRole
from head.daemon import user_accounts
from head.daemon.options import head_options
from head.daemon.user_accounts import OwnRuns, UserAccounts

ROOT = pwd.getpwuid(0).pw_name
SOMEBODY = next(each.pw_name for each in pwd.getpwall() if each.pw_uid)
needs_root = pytest.mark.skipif(not may_switch(), reason="only root can switch accounts")


@pytest.fixture
def runs() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def accounts(runs: Path, monkeypatch: pytest.MonkeyPatch) -> UserAccounts:
    """Two, on a machine whose Python all may use."""
    monkeypatch.setattr(SystemAccount, "require", lambda *_: None)
    found = {"one": 64_321, "two": 64_322}
    monkeypatch.setattr(
        SystemAccount, "named", lambda name: SystemAccount(name, found[name], found[name], (), "/")
    )
    return UserAccounts({"ann": "one", "*": "two"}, runs)


def test_all_faults_of_the_table_are_told_at_once(tmp_path: Path) -> None:
    config = tmp_path / "head.toml"
    config.write_text(
        f'[accounts]\nann = "artos-none"\nben = "{ROOT}"\n'
        f'"*" = "{SOMEBODY}"\n"a b" = "{SOMEBODY}"\n'
    )
    with pytest.raises(Refused) as refused:
        head_options(config, {"listen": "tcp://127.0.0.1:1"})
    ann, ben, bad = (
        "accounts: ann: this machine has no account 'artos-none': make it (useradd -m)",
        f"accounts: ben: the account '{ROOT}' is root's: name one without privileges",
        "accounts: 'a b' cannot be a user: write the name of a key (artos keys --user NAME)",
    )
    assert {ann, ben, bad} < {*refused.value.faults}
    assert any("keys is missing" in fault for fault in refused.value.faults)


def test_a_table_is_of_names(tmp_path: Path) -> None:
    config = tmp_path / "head.toml"
    config.write_text("[accounts]\nann = 1000\n")
    with pytest.raises(Refused, match="expected `str`, got `int`"):
        head_options(config, {"listen": "tcp://127.0.0.1:1", "keys": tmp_path})


def test_a_head_that_may_not_switch_says_so(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_accounts, "may_switch", lambda: False)
    accounts = UserAccounts({"ann": SOMEBODY}, runs)
    make_keys(runs / "keys", Holder(KeyRole.USER, "ann"))
    assert accounts.named_for("ann") == SOMEBODY, "workers may be able to"
    assert (accounts.of(SOMEBODY), accounts.place(SOMEBODY), accounts.doors) == (None, None, [])
    (said,) = accounts.warnings(runs / "keys")
    assert f"the head is user {os.geteuid()} and may not switch" in said


@needs_root
def test_each_user_has_an_account_of_the_table(accounts: UserAccounts, runs: Path) -> None:
    assert [accounts.named_for(user) for user in ("ann", "ben")] == ["one", "two"]
    for name in ("one", "two"):
        place, account = accounts.place(name), accounts.of(name)
        assert place is not None
        assert account is not None
        assert (place.stat().st_uid, place.stat().st_mode & 0o777) == (account.uid, 0o700)
        assert accounts.endpoint(name) == f"ipc://{place}/head"


@needs_root
def test_users_that_the_table_forgets_are_told(accounts: UserAccounts, runs: Path) -> None:
    make_keys(runs / "keys", Holder(KeyRole.USER, "ben"))
    assert [*accounts.warnings(runs / "keys")] == [
        "head.toml has accounts of users without a key: ann"
    ]
    (_, said) = UserAccounts({"ann": "one"}, runs).warnings(runs / "keys")
    assert "runs of ben are root's" in said


@needs_root
def test_no_run_lies_in_that_of_another_account(accounts: UserAccounts, runs: Path) -> None:
    one, two = accounts.of("one"), accounts.of("two")
    accounts.give(runs / "group" / "mine", one)
    accounts.give(runs / "group" / "mine", one)
    for account in (two, None):
        with pytest.raises(Refused, match="belongs to user 64321"):
            accounts.give(runs / "group" / "mine", account)
    with pytest.raises(Refused, match="belongs to user 64321"):
        accounts.give(runs / "group" / "mine" / "inner", two)


@needs_root
def test_a_process_speaks_for_runs_of_its_own_account(accounts: UserAccounts) -> None:
    door = OwnRuns(accounts, {"r1": "one", "r2": "two", "r3": ""}.get)  # type: ignore[arg-type]
    door.claim("r1", "64321", 0.0)
    door.claim("r1", "0", 0.0)
    for name, user in (("r2", "64321"), ("r3", "64321"), ("none", "64321"), ("r1", "1000")):
        with pytest.raises(NotAllowed, match=f"user {user} may not speak for run '{name}'"):
            door.claim(name, user, 0.0)
    door.permit("r1", RunNews("r1", "running"))
    for message in (RunNews("r2", "running"), RunUp("r2", 1, 1, b"", "", "", "", 4)):
        with pytest.raises(NotAllowed, match="run 'r1' may not speak for run 'r2'"):
            door.permit("r1", message)


def test_without_accounts_nobody_is_asked_who_they_are(runs: Path) -> None:
    OwnRuns(UserAccounts({}, runs), lambda run: "").claim("r1", "", 0.0)
