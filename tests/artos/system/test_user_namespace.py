"""An account with rights of its own: they count for its processes, and for nobody else's."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
from helpers import PATIENCE

from artos.system import user_namespace
from artos.system.account import SystemAccount, may_switch, root_user

RIGHTS = {"SETPCAP": 8, "SYS_PTRACE": 19, "SYS_ADMIN": 21, "CHECKPOINT_RESTORE": 40}
USER = 64_313
needs_root = pytest.mark.skipif(not may_switch(), reason="only root can become an account")


def as_account(*command: str) -> subprocess.CompletedProcess[str]:
    account = SystemAccount("a", USER, USER, (USER, USER + 1), "/", "", tuple(RIGHTS.values()))
    return subprocess.run(
        [*account.entry, *command], **account.switching, capture_output=True, text=True,
        check=False, timeout=PATIENCE,
    )  # fmt: skip


@needs_root
def test_the_account_has_its_rights_in_a_place_where_nobody_else_is() -> None:
    done = as_account("cat", "/proc/self/status", "/proc/self/uid_map")
    assert done.returncode == 0, done.stderr
    *lines, users = done.stdout.splitlines()
    found = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    assert found["Uid"] == found["Gid"] == [str(USER)] * 4
    assert found["Groups"] == [str(USER), str(USER + 1)]
    held = sum(1 << number for number in RIGHTS.values())
    assert {int(found[kind][0], 16) for kind in ("CapPrm", "CapEff", "CapAmb")} == {held}
    assert found["NoNewPrivs"] == ["1"]
    assert users.split() == [str(USER), str(USER), "1"]


@needs_root
@pytest.mark.parametrize(
    "command",
    [
        ("setpriv", "--reuid=0", "true"),
        ("setpriv", f"--reuid={USER + 1}", "true"),
        ("cat", "/proc/1/maps"),
        ("mount", "-o", "remount,rw", "/"),
        ("cat", "/etc/shadow"),
        ("nsenter", "--mount=/proc/1/ns/mnt", "true"),
    ],
)
def test_they_count_for_nothing_outside(command: tuple[str, ...]) -> None:
    assert as_account("true").returncode == 0
    assert as_account(*command).returncode != 0


@needs_root
def test_no_process_of_the_account_can_enter_from_outside() -> None:
    account = SystemAccount("a", USER, USER, (USER,), "/", "", tuple(RIGHTS.values()))
    with subprocess.Popen(
        [*account.entry, "sh", "-c", "echo here; read nothing"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, **account.switching,
    ) as inside:  # fmt: skip
        assert inside.stdout is not None
        assert inside.stdout.readline() == b"here\n"
        same = {"user": USER, "group": USER, "extra_groups": (), "cwd": "/"}
        done = subprocess.run(
            ["nsenter", f"--user=/proc/{inside.pid}/ns/user", "--preserve-credentials", "true"],
            **same, capture_output=True, check=False, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode != 0
        inside.communicate(b"\n", PATIENCE)


def test_where_there_can_be_no_namespace_nothing_is_entered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(user_namespace, "_libc", SimpleNamespace(unshare=lambda _: -1))
    assert not user_namespace.enter(USER, [USER])


def test_root_has_its_own_number_here() -> None:
    assert root_user() == 0
