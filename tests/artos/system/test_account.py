"""System accounts: which there are, and that a daemon that is root touches files as their owner."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import PATIENCE

from artos.errors import Refused
from artos.system import account as module
from artos.system.account import SystemAccount, as_owner, file_user, give, may_switch, require_owner

NOBODY = SystemAccount("nobody", 65_534, 65_534, (65_534,), "/nonexistent")
needs_root = pytest.mark.skipif(not may_switch(), reason="only root can switch accounts")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that all may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_an_account_that_is_not_here_and_that_of_root_are_refused() -> None:
    with pytest.raises(Refused, match=r"no account 'artos-nobody'.*useradd"):
        SystemAccount.named("artos-nobody")
    with pytest.raises(Refused, match="'root' is root's"):
        SystemAccount.named(pwd.getpwuid(0).pw_name)


def test_an_account_has_its_own_home_and_no_folder_of_the_daemons_user() -> None:
    daemon = {"HOME": "/root", "XDG_CACHE_HOME": "/var/cache", "ARTOS_SHM": "/dev/shm"}
    assert NOBODY.environment(daemon) == {
        "ARTOS_SHM": "/dev/shm", "HOME": "/nonexistent", "USER": "nobody", "LOGNAME": "nobody",
    }  # fmt: skip


def test_a_daemon_that_may_not_switch_goes_on_as_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "may_switch", lambda: False)
    monkeypatch.setattr(module, "file_user", lambda: 1)
    with as_owner(tmp_path):
        (tmp_path / "file").touch()
    assert (tmp_path / "file").stat().st_uid == os.geteuid()


@needs_root
def test_files_are_touched_as_their_owner_by_one_thread(place: Path) -> None:
    secret, theirs = place / "secret", place / "theirs"
    secret.touch(mode=0o600)
    give(theirs, NOBODY)
    (theirs / "link").symlink_to(secret)
    others: list[int] = []
    switched = threading.Event()

    def look() -> None:
        assert switched.wait(PATIENCE)
        others.append(file_user())

    thread = threading.Thread(target=look)
    thread.start()  # a thread that is begun by one that has switched begins as that one is
    with as_owner(theirs):
        with pytest.raises(PermissionError):
            (theirs / "link").read_bytes()
        (theirs / "new").touch()
        switched.set()
        thread.join(PATIENCE)
        assert file_user() == NOBODY.uid
    assert others == [0]
    assert (file_user(), (theirs / "new").stat().st_uid) == (0, NOBODY.uid)
    assert (theirs / "link").read_bytes() == b""


@needs_root
def test_a_folder_is_given_once_and_to_one_account(place: Path) -> None:
    for _ in range(2):
        give(place / "run", NOBODY)
    about = (place / "run").stat()
    assert (about.st_uid, about.st_gid, about.st_mode & 0o777) == (NOBODY.uid, NOBODY.gid, 0o700)
    with pytest.raises(Refused, match=f"belongs to user {NOBODY.uid}.*this daemon"):
        require_owner(place / "run", None)
    (place / "mine").mkdir()
    with pytest.raises(Refused, match=r"belongs to user 0.*account nobody"):
        give(place / "mine", NOBODY)


@needs_root
def test_what_an_account_cannot_use_is_said_at_once(place: Path) -> None:
    (place / "shut").mkdir(mode=0o700)
    (place / "also").mkdir(mode=0o700)
    with pytest.raises(Refused) as refused:
        NOBODY.require(place / "shut" / "deep", place / "also", place)
    said = [fault for fault in refused.value.faults if str(place) in fault]
    assert said == [
        f"the account nobody cannot enter {place}/{name} (chmod o+x {place}/{name})"
        for name in ("shut", "also")
    ]


@needs_root
def test_a_process_of_an_account_has_no_rights_of_the_daemon() -> None:
    look = 'id -u; id -g; id -G; pwd; grep CapEff /proc/self/status | grep -o "[0-9a-f]*$"'
    found = subprocess.run(
        ["sh", "-c", look], capture_output=True, text=True, check=True, **NOBODY.switching
    )
    assert found.stdout.split() == ["65534"] * 3 + ["/", "0" * 16]
