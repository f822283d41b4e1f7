"""The folder of keys, and ``artos keys``."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import zmq

from artos.errors import Refused
from artos.transport.keys import Keys, make_keys, names, revoke
from deploy.cli import main


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def public_of(folder: Path, name: str) -> str:
    return (folder / "nodes" / f"{name}.key").read_text().strip()


def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = make_keys(tmp_path / "keys")
    finally:
        os.umask(before)
    assert {path.relative_to(tmp_path / "keys").as_posix() for path in made} == {
        "head.key", "head.key_secret", "nodes/cluster.key", "nodes/cluster.key_secret",
    }  # fmt: skip
    assert {mode(path) for path in made if path.suffix == ".key_secret"} == {0o600}
    assert mode(tmp_path / "keys") == mode(tmp_path / "keys/nodes") == 0o700


def test_keys_that_are_there_stay(tmp_path: Path) -> None:
    make_keys(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.key*")}
    assert make_keys(tmp_path) == []
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.key*")} == before


def test_a_worker_needs_only_the_heads_public_key_and_its_own_secret(tmp_path: Path) -> None:
    make_keys(tmp_path / "head", "w1")
    (tmp_path / "worker/nodes").mkdir(parents=True)
    for name in ("head.key", "nodes/w1.key_secret"):
        shutil.copy(tmp_path / "head" / name, tmp_path / "worker" / name)
    keys = Keys.load(tmp_path / "worker")
    assert zmq.curve_public(keys.secret_of("anything")).decode() == public_of(
        tmp_path / "head", "w1"
    )
    assert keys.head == Keys.load(tmp_path / "head").head
    with pytest.raises(Refused, match="key_secret"):
        _ = keys.head_secret


def test_a_node_uses_its_own_key_then_the_clusters(tmp_path: Path) -> None:
    make_keys(tmp_path)
    make_keys(tmp_path, "w1")
    keys = Keys.load(tmp_path)
    for me, name in (("w1", "w1"), ("w2", "cluster")):
        assert zmq.curve_public(keys.secret_of(me)).decode() == public_of(tmp_path, name)
    named = Keys.load(tmp_path, "w1").secret_of("w2")
    assert zmq.curve_public(named).decode() == public_of(tmp_path, "w1")


def test_which_key_to_use_must_be_clear(tmp_path: Path) -> None:
    make_keys(tmp_path, "w1")
    make_keys(tmp_path, "w2")
    with pytest.raises(Refused, match="'w3'"):
        Keys.load(tmp_path).secret_of("w3")


def test_what_is_accepted_follows_the_folder(tmp_path: Path) -> None:
    make_keys(tmp_path, "w1")
    keys = Keys.load(tmp_path)
    first = public_of(tmp_path, "w1")
    assert keys.accepts(first)
    assert not keys.accepts("")
    make_keys(tmp_path, "w2")
    second = public_of(tmp_path, "w2")
    assert keys.accepts(second)
    revoke(tmp_path, "w1")
    assert not keys.accepts(first)
    make_keys(tmp_path, "w1")
    assert not keys.accepts(first), "a new key of the same name does not bring the old one back"
    assert keys.accepts(public_of(tmp_path, "w1"))


def test_a_change_long_after_the_last_look_is_seen(tmp_path: Path) -> None:
    make_keys(tmp_path, "w1")
    os.utime(tmp_path / "nodes", (1, 1))
    keys = Keys.load(tmp_path)
    public = public_of(tmp_path, "w1")
    assert keys.accepts(public)
    revoke(tmp_path, "w1")
    assert not keys.accepts(public)


def test_two_changes_within_one_tick_of_the_file_systems_clock_are_seen(tmp_path: Path) -> None:
    make_keys(tmp_path, "w1")
    keys, public = Keys.load(tmp_path), public_of(tmp_path, "w1")
    assert keys.accepts(public)
    tick = (tmp_path / "nodes").stat().st_mtime_ns
    revoke(tmp_path, "w1")
    os.utime(tmp_path / "nodes", ns=(tick, tick))
    assert not keys.accepts(public)


def test_without_the_folder_nobody_is_accepted(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys", "w1")
    keys, public = Keys.load(tmp_path / "keys"), public_of(tmp_path / "keys", "w1")
    shutil.rmtree(tmp_path / "keys")
    assert not keys.accepts(public)


@pytest.mark.parametrize("name", ["", "../head", "a/b", ".hidden", "x" * 65, "two words"])
def test_a_key_needs_a_name_that_is_a_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="no key can be named"):
        make_keys(tmp_path / "keys", name)
    assert not (tmp_path / "keys").exists()


def test_all_faults_of_a_folder_at_once(tmp_path: Path) -> None:
    make_keys(tmp_path)
    (tmp_path / "head.key").write_text("rubbish")
    (tmp_path / "nodes/cluster.key_secret").chmod(0o640)
    with pytest.raises(Refused) as refused:
        Keys.load(tmp_path)
    assert len(refused.value.faults) == 2
    assert "chmod 600" in refused.value.faults[1]


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="artos keys"):
        Keys.load(tmp_path)


def test_revoking_a_key_that_is_not_there(tmp_path: Path) -> None:
    make_keys(tmp_path, "w1")
    with pytest.raises(Refused, match="'w2': there are w1"):
        revoke(tmp_path, "w2")


# -- the command -----------------------------------------------------------------------------------


def test_the_command_makes_adds_and_revokes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "keys")
    assert main(["keys", folder]) == 0
    assert "cluster.key_secret" in capsys.readouterr().out
    assert main(["keys", folder, "--add", "w1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["nodes"] == ["cluster", "w1"]
    assert len(report["made"]) == 2
    assert main(["keys", folder, "--revoke", "cluster", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["revoked"], report["made"], report["nodes"]) == ("cluster", [], ["w1"])
    assert names(tmp_path / "keys") == ["w1"]


def test_the_command_refuses_what_it_cannot_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", str(tmp_path / "keys"), "--revoke", "w1"]) == 2
    assert "'w1'" in capsys.readouterr().err
    assert not (tmp_path / "keys").exists()
