"""``artos simulate``: for people and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.cli.__main__ import main

MIX = """
[[workload]]
name = "pong"
actors = 2
round = 1.0
update = 0.5
total_updates = 4
runs = 30
"""


@pytest.fixture
def mix(tmp_path: Path) -> str:
    path = tmp_path / "mix.toml"
    path.write_text(MIX)
    return str(path)


def test_what_scripts_read(mix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--nodes", "30", "--slots", "2", "--mix", mix, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"makespan", "utilisation", "waits", "usage"} <= found.keys()
    assert found["makespan"] == pytest.approx(6.0)
    assert len(found["usage"]) == 30
    assert {"cpu_seconds_held", "device_seconds_held", "waits"} <= found["usage"][0].keys()
    assert found["usage"][0]["cpu_seconds_held"] == pytest.approx(8.0)


def test_what_people_read(mix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--nodes", "30", "--slots", "2", "--mix", mix]) == 0
    shown = capsys.readouterr().out
    assert "makespan     6.0 s on 30 x 2 slots and 0 devices" in shown
    assert "pong-1 " in shown
    assert "... and 10 more" in shown


def test_more_runs_than_slots(mix: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "--slots", "10", "--devices", "30", "--mix", mix]
    assert main([*command, "--runs-per-slot", "3"]) == 0
    assert "on 1 x 10 slots with 3 runs each and 30 devices" in capsys.readouterr().out
    assert main([*command, "--runs-per-slot", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs_per_slot"] == 3
    assert {run["began"] for run in found["usage"]} == {0.0}, "all at once"
    assert main([*command, "--runs-per-slot", "0"]) == 2


def test_quotas_from_a_file(mix: str, capsys: pytest.CaptureFixture[str]) -> None:
    quotas = Path(mix).with_name("quotas.toml")
    quotas.write_text("[quotas.users]\nowner = { slots = 4 }\n")
    command = ["simulate", "--nodes", "30", "--slots", "2", "--mix", mix, "--quotas", str(quotas)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "waits        quota: " in shown
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["waits"]["quota"]["longest"] > 0


def test_one_source_has_to_be_named(mix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate"]) == 2
    assert main(["simulate", "--mix", mix, "--journal", "x"]) == 2
    assert capsys.readouterr().err.count("--journal RUN ..., or --mix FILE") == 2
