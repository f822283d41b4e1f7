"""What a uv.lock is for pip: a checksum for each package, or it is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from artos.errors import Refused
from artos.version import VERSION
from deploy.client.package_list import package_list

HASHED = """
moo==1.0 ; sys_platform == 'linux' \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via mine
baa @ https://example.org/baa.tar.gz --hash=sha256:cc
"""


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of which a ``uv`` in place of the real one exports what is in ``exported``."""
    uv = tmp_path / "uv"
    uv.write_text(f"#!/bin/sh\ncat {tmp_path}/exported\n")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = tmp_path / "uv.lock"
    found.write_text("version = 1\n")
    return found


def test_a_list_with_all_checksums_is_sent_as_it_is(lock: Path) -> None:
    lock.with_name("exported").write_text(HASHED)
    assert package_list(lock).decode() == HASHED


def test_a_lock_for_another_artos_is_refused(lock: Path) -> None:
    lock.with_name("exported").write_text(HASHED)
    locked = '[[package]]\nname = "moo"\nversion = "1.0"\n[[package]]\nname = "artos"\n'
    lock.write_text(f'{locked}version = "0.0.1"\n')
    with pytest.raises(Refused, match=rf"for ARTOS 0\.0\.1, and this is {re.escape(VERSION)}: `uv"):
        package_list(lock)
    for ours in (f'version = "{VERSION}"\n', "# of a checkout, whose version may be dynamic\n"):
        lock.write_text(locked + ours)
        assert package_list(lock).decode() == HASHED


def test_packages_without_a_checksum_are_named(lock: Path) -> None:
    bare = "near @ git+https://example.org/near@0a1b\nfar==2 ; python_full_version < '3.12'\n"
    lock.with_name("exported").write_text(HASHED + bare)
    with pytest.raises(Refused, match=r"no checksum of near, far==2 .*uv export --no-hashes"):
        package_list(lock)
    listed = lock.with_name("requirements.txt")
    listed.write_text(bare)
    assert package_list(listed).decode() == bare, "a user's own list is theirs"


def test_what_is_only_here_is_said_to_be_so(lock: Path) -> None:
    lock.with_name("exported").write_text(f"-e ./near\n{HASHED}")
    with pytest.raises(Refused, match=r"only this machine has.*\(-e\)"):
        package_list(lock)
