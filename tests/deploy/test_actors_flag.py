"""``--actors`` in its forms, through the command line and the registering process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.cli.__main__ import main

SCALING = {
    "3": {"type": "by_hand", "first": 3, "most": 3},
    "2..5": {"type": "by_hand", "first": 2, "most": 5},
    "0:1,5:3": {"type": "schedule", "changes": {"0": 1, "5": 3}},
    "plateau:1..4": {
        "type": "plateau", "least": 1, "most": 4, "step": 2, "window": 20, "gain": 0.05
    },
}  # fmt: skip


@pytest.mark.parametrize("text", SCALING)
def test_a_flag_becomes_part_of_the_plan(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explain", "ppo", "--actors", text, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["scaling"] == SCALING[text]
    assert plan["actors"] == int(text[-1]), "so many are registered"
    assert {"lr", "hidden", "park"} <= {each["name"] for each in plan["settings"]}
