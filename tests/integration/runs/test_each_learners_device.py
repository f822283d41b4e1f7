"""Learners that compute on devices of their own: what each leases, and what it pays for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers import ROOT
from inline_runs import commanded, registered
from real_runs import Artos, kill_each

from artos.errors import Refused
from artos.pool.folder import pool_folder
from artos.specs.members import Member

Start = Callable[..., Artos]
HERE = Path(__file__).parent
GAMES = ROOT / "tests" / "artos" / "envs" / "games_for_tests.py"
RUN = ("run", "guessers.py:workload", "--total-steps", 960, "--json", "--run-dir")
LEARNERS = ("middle", "others")


@pytest.fixture
def folder(home: Path) -> Iterator[Path]:
    shutil.copy(HERE / "guessers.py", home)
    shutil.copy(GAMES, home / "guessing.py")
    yield home
    assert not pool_folder().exists()


def test_one_leases_its_device_and_the_other_has_its_own(folder: Path) -> None:
    """A lease lasts as long as the updates do; what is not leased is held while it waits, too."""
    ended = commanded(folder, (*RUN, folder / "run", "--inline", "--device", "others=pool"))
    assert ended.status == 0, ended.err
    found = ended.summary["devices"]
    assert {name: each["device"] for name, each in found.items()} == {
        "middle": "cpu", "others": "cpu:0"
    }  # fmt: skip
    assert found["others"]["held"] == found["others"]["used"] > 0
    assert found["middle"]["held"] > found["middle"]["used"] > 0
    assert ended.summary["device"] == "cpu"
    usage = ended.summary["usage"]
    for kind in ("held", "used"):
        total = sum(each[kind] for each in found.values())
        assert usage[f"device_seconds_{kind}"] == pytest.approx(total, rel=1e-4)
    config = json.loads((folder / "run" / "config.json").read_text())
    assert config["devices"] == {"middle": "cpu", "others": "pool"}
    again = commanded(
        folder,
        ("run", "--inline", "--resume", folder / "run", "--total-steps", 1_920, "--json",
         "--device", "middle=pool"),
    )  # fmt: skip
    assert again.status == 0, again.err
    assert again.summary["devices"]["others"]["device"] == "cpu"
    assert again.summary["devices"]["middle"]["device"] == "cpu:0"
    config = json.loads((folder / "run" / "config.json").read_text())
    assert config["devices"] == {"middle": "pool", "others": "cpu"}


@pytest.mark.long
def test_learners_lease_devices_of_one_pool_and_a_killed_one_gives_its_own_back(
    start: Start, folder: Path
) -> None:
    """Each is on the device that the fewest are on; the lease of a killed one comes back."""
    run, two = folder / "run", {"ARTOS_DEVICES": "cpu:a,cpu:b"}
    wanted = ("--device", "middle=pool,others=pool", "--total-steps", 10_000_000)
    process = start(*RUN, run, *wanted, **two)
    kill_each(process, run, map(Member, LEARNERS), LEARNERS)
    found = json.loads((run / "summary.json").read_text())["devices"]
    assert {each["device"] for each in found.values()} == {"cpu:a", "cpu:b"}
    assert all(each["held"] == each["used"] > 0 for each in found.values())


@pytest.mark.parametrize(
    ("device", "why"),
    [
        ("midle=pool", "device names 'midle', which is no learner: did you mean middle?"),
        ("middle=cuda:9,others=gpu", "unknown device 'gpu'"),
        ({"middle": 3}, "write a device, or one for each learner"),
    ],
)
def test_a_device_that_cannot_be_is_told_before_anything_starts(
    device: object, why: str, folder: Path
) -> None:
    with pytest.raises(Refused) as refused:
        registered("guessers.py:workload", folder, device=device)
    assert why in str(refused.value)


def test_a_workload_may_say_it_itself(folder: Path) -> None:
    (folder / "placed_guessers.py").write_text(
        "from dataclasses import replace\n"
        "from guessers import workload as plain\n\n"
        "def workload():\n"
        "    return replace(plain(), device={'others': 'auto', 'middle': 'pool'})\n"
    )
    found = registered("placed_guessers.py:workload", folder)
    assert found.plan.devices == {"middle": "pool", "others": "cpu"}
