"""The folder of keys, and ``artos keys``."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import zmq

from artos.errors import Refused
from artos.transport.keys import HeadKeys, Keys, _is_exposed, make_keys, names, revoke
from artos.transport.roles import OWNER, Holder, KeyRole
from deploy.cli.__main__ import main

W1, W2 = Holder(KeyRole.NODE, "w1"), Holder(KeyRole.NODE, "w2")
ANN = Holder(KeyRole.USER, "ann")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def public_of(folder: Path, name: str) -> str:
    return (folder / "nodes" / f"{name}.key").read_text().strip()


def accepts(keys: Keys, public: str) -> bool:
    return public in keys.register().holders


def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = make_keys(tmp_path / "keys")
    finally:
        os.umask(before)
    assert {path.relative_to(tmp_path / "keys").as_posix() for path in made} == {
        "head.key", "head.key_secret", "nodes/any.key", "nodes/any.key_secret",
        "users/owner.key", "users/owner.key_secret",
    }  # fmt: skip
    assert {mode(path) for path in made if path.suffix == ".key_secret"} == {0o600}
    folders = ("keys", "keys/nodes", "keys/users")
    assert {mode(tmp_path / folder) for folder in folders} == {0o700}


def test_a_key_that_is_written_over_is_valid_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``scp`` does: the folder is as it was."""
    monkeypatch.setattr("artos.transport.keys._LOOK", 0.0)
    make_keys(tmp_path, W1, W2)
    keys, folder = Keys.load(tmp_path), tmp_path / "nodes"
    long_ago = time.time() - 3600
    for path in (folder / "w1.key", folder / "w2.key", folder):
        os.utime(path, (long_ago, long_ago))
    leaked, new = public_of(tmp_path, "w1"), zmq.curve_keypair()[0].decode()
    assert accepts(keys, leaked)
    (folder / "w1.key").write_text(new)
    assert folder.stat().st_mtime < time.time() - 1800
    assert not accepts(keys, leaked)
    assert accepts(keys, new)


def test_keys_that_are_there_stay(tmp_path: Path) -> None:
    make_keys(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.key*")}
    assert make_keys(tmp_path) == []
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.key*")} == before


def test_a_worker_needs_only_the_heads_public_key_and_its_own_secret(tmp_path: Path) -> None:
    make_keys(tmp_path / "head", W1)
    (tmp_path / "worker/nodes").mkdir(parents=True)
    for name in ("head.key", "nodes/w1.key_secret"):
        shutil.copy(tmp_path / "head" / name, tmp_path / "worker" / name)
    keys = Keys.load(tmp_path / "worker")
    assert zmq.curve_public(keys.secret_of("w1/4f")).decode() == public_of(tmp_path / "head", "w1")
    assert keys.head == Keys.load(tmp_path / "head").head
    with pytest.raises(Refused, match="key_secret"):
        _ = keys.head_secret


def test_a_node_uses_its_own_key_then_that_of_any(tmp_path: Path) -> None:
    make_keys(tmp_path)
    make_keys(tmp_path, W1)
    keys = Keys.load(tmp_path)
    for me, name in (("w1", "w1"), ("w1/weights", "w1"), ("w2", "any")):
        assert zmq.curve_public(keys.secret_of(me)).decode() == public_of(tmp_path, name)


@pytest.mark.parametrize(
    ("me", "words"),
    [
        ("w3", "node w3.*--node w3"),
        ("user:ann", "user ann.*--user ann"),
        ("a b", "not a valid name"),
    ],
)
def test_nobody_uses_the_key_of_another(me: str, words: str, tmp_path: Path) -> None:
    make_keys(tmp_path, W1, W2)
    with pytest.raises(Refused, match=words):
        Keys.load(tmp_path).secret_of(me)


def test_whose_users_key_is_used_is_clear(tmp_path: Path) -> None:
    make_keys(tmp_path, W1)
    with pytest.raises(Refused, match="a node's key cannot submit"):
        _ = Keys.load(tmp_path).user
    make_keys(tmp_path, ANN)
    assert Keys.load(tmp_path).user == ANN
    make_keys(tmp_path, Holder(KeyRole.USER, "bob"))
    with pytest.raises(Refused, match="ann, bob"):
        _ = Keys.load(tmp_path).user
    make_keys(tmp_path)
    assert Keys.load(tmp_path).user == OWNER


@pytest.mark.parametrize("copied", [False, True])
def test_keys_without_roles_are_refused_with_the_command_that_makes_new_ones(
    copied: bool, tmp_path: Path
) -> None:
    """On the head, and on a worker, which has two files of them."""
    folder = tmp_path / "keys"
    make_keys(folder)
    shutil.rmtree(folder / "users")
    for name in ("key", "key_secret"):
        (folder / f"nodes/any.{name}").rename(folder / f"nodes/cluster.{name}")
    if copied:
        for name in ("head.key_secret", "nodes/cluster.key"):
            (folder / name).unlink()
    before = sorted(folder.rglob("*"))
    for does in (Keys.load, make_keys):
        with pytest.raises(Refused, match=rf"mv {folder} .*artos keys {folder}`"):
            does(folder)
    assert sorted(folder.rglob("*")) == before


def test_what_is_accepted_follows_the_folder(tmp_path: Path) -> None:
    make_keys(tmp_path, W1)
    keys = Keys.load(tmp_path)
    first = public_of(tmp_path, "w1")
    assert accepts(keys, first)
    assert not accepts(keys, "")
    make_keys(tmp_path, W2)
    second = public_of(tmp_path, "w2")
    assert accepts(keys, second)
    revoke(tmp_path, W1)
    assert not accepts(keys, first)
    make_keys(tmp_path, W1)
    assert not accepts(keys, first), "a new key of the same name does not bring the old one back"
    assert accepts(keys, public_of(tmp_path, "w1"))


def test_a_change_long_after_the_last_look_is_seen(tmp_path: Path) -> None:
    make_keys(tmp_path, W1)
    for each in ("nodes", "users"):
        os.utime(tmp_path / each, (1, 1))
    keys = Keys.load(tmp_path)
    public = public_of(tmp_path, "w1")
    assert accepts(keys, public)
    revoke(tmp_path, W1)
    assert not accepts(keys, public)


def test_two_changes_within_one_tick_of_the_file_systems_clock_are_seen(tmp_path: Path) -> None:
    make_keys(tmp_path, W1)
    keys, public = Keys.load(tmp_path), public_of(tmp_path, "w1")
    assert accepts(keys, public)
    tick = (tmp_path / "nodes").stat().st_mtime_ns
    revoke(tmp_path, W1)
    os.utime(tmp_path / "nodes", ns=(tick, tick))
    assert not accepts(keys, public)


def test_without_the_folder_nobody_is_accepted(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys", W1)
    keys, public = Keys.load(tmp_path / "keys"), public_of(tmp_path / "keys", "w1")
    shutil.rmtree(tmp_path / "keys")
    assert not accepts(keys, public)


@pytest.mark.parametrize("name", ["", "../head", "a/b", ".hidden", "x" * 65, "two words"])
def test_a_key_needs_a_name_that_is_a_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="no key can be named"):
        make_keys(tmp_path / "keys", Holder(KeyRole.USER, name))
    assert not (tmp_path / "keys").exists()


def test_all_faults_of_a_folder_at_once(tmp_path: Path) -> None:
    make_keys(tmp_path)
    (tmp_path / "head.key").write_text("rubbish")
    (tmp_path / "users/owner.key_secret").chmod(0o640)
    with pytest.raises(Refused) as refused:
        Keys.load(tmp_path)
    assert len(refused.value.faults) == 2
    assert "chmod 600" in refused.value.faults[1]


@pytest.mark.parametrize(
    ("owner", "rights", "exposed"),
    [(0, 0o440, False), (0, 0o444, True), (10_001, 0o600, False), (10_001, 0o640, True)],
)
def test_what_root_gives_to_our_group_is_ours_alone(
    owner: int, rights: int, exposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is with the files of a Secret in a pod that does not run as root."""
    monkeypatch.setattr(os, "geteuid", lambda: 10_001)
    assert _is_exposed(os.stat_result((rights, 0, 0, 1, owner, 10_001, 40, 0, 0, 0))) == exposed


def test_what_is_accepted_follows_a_folder_as_a_kubelet_keeps_it(tmp_path: Path) -> None:
    """The files of a Secret are links into a folder that is exchanged as a whole."""
    make_keys(tmp_path / "desk", W1)
    folder = tmp_path / "pod"
    (folder / "users").mkdir(parents=True)
    nodes = folder / "nodes"

    def bring(version: str) -> None:
        (nodes / version).mkdir(parents=True)
        found = [path for path in (tmp_path / "desk/nodes").iterdir() if path.suffix == ".key"]
        for path in found:
            shutil.copy(path, nodes / version)
        (nodes / "..next").symlink_to(version)
        (nodes / "..next").rename(nodes / "..data")
        for path in found:
            if not (nodes / path.name).is_symlink():
                (nodes / path.name).symlink_to(f"..data/{path.name}")
        for path in nodes.glob("*.key"):
            if not path.exists():
                path.unlink()

    bring("..1")
    keys = HeadKeys(folder)
    first = public_of(tmp_path / "desk", "w1")
    assert accepts(keys, first)
    make_keys(tmp_path / "desk", W2)
    revoke(tmp_path / "desk", W1)
    bring("..2")
    assert accepts(keys, public_of(tmp_path / "desk", "w2"))
    assert not accepts(keys, first)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="artos keys"):
        Keys.load(tmp_path)


def test_revoking_a_key_that_is_not_there(tmp_path: Path) -> None:
    make_keys(tmp_path, W1)
    with pytest.raises(Refused, match="node w2; nodes with a key: w1"):
        revoke(tmp_path, W2)
    with pytest.raises(Refused) as caught:
        revoke(tmp_path, W1, W2, Holder(KeyRole.USER, "nobody"))
    assert len(caught.value.faults) == 2
    assert names(tmp_path, KeyRole.NODE) == ["w1"], "none is revoked if not all are"
    revoke(tmp_path, W1, W1)
    assert names(tmp_path, KeyRole.NODE) == []


# -- the command -----------------------------------------------------------------------------------


def command(folder: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    assert main(["keys", str(folder), *flags, "--json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def test_the_command_makes_adds_and_revokes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "keys"
    assert main(["keys", str(folder)]) == 0
    assert "head.key nodes/any.key_secret |" in capsys.readouterr().out
    report = command(folder, capsys, "--node", "w1", "--node", "w2", "--user", "ann")
    assert (report["nodes"], report["users"]) == (["any", "w1", "w2"], ["ann", "owner"])
    assert len(report["made"]) == 6
    report = command(folder, capsys, "--revoke", "--node", "any", "--user", "ann")
    assert (report["revoked"], report["made"]) == (["user ann", "node any"], [])
    assert (names(folder, KeyRole.NODE), names(folder, KeyRole.USER)) == (["w1", "w2"], ["owner"])


def test_one_node_of_a_cluster_needs_no_key_for_any(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = command(tmp_path / "keys", capsys, "--node", "w1", "--user", "ann")
    assert (report["nodes"], report["users"]) == (["w1"], ["ann"])
    assert not (tmp_path / "keys" / "nodes" / "any.key").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [(("--revoke", "--node", "w1"), "node w1"), (("--revoke",), "name the key to revoke")],
)
def test_the_command_refuses_what_it_cannot_do(
    flags: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", str(tmp_path / "keys"), *flags]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "keys").exists()
