"""What is in the way of a replay is named before anything is started."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from stage import plan_of

from artos.errors import Refused
from artos.runs.run_config import CONFIG
from artos.runs.tape import Begun, Called, Header, Published, Recorded
from deploy.replay.learners import Kept
from deploy.replay.opening import Part, replayed
from deploy.replay.script import Script

CARTPOLE = {"env": "CartPole-v1", "actors": 1}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (
            {"inference": "central"},
            "what inference answered was not recorded: an earlier ARTOS made it",
        ),
        ({"wire_dtype": "bfloat16"}, r"had rounded weights \(wire_dtype=bfloat16\)"),
    ],
)
def test_a_run_of_which_something_is_not_recorded(
    tmp_path: Path, settings: dict[str, object], why: str
) -> None:
    config = {"workload": "ppo", "settings": CARTPOLE | settings, "folder": str(tmp_path)}
    (tmp_path / CONFIG).write_bytes(msgspec.json.encode(config))
    (tmp_path / "journal.jsonl").write_bytes(b"")
    with pytest.raises(Refused, match=why):
        replayed(tmp_path)


def test_of_a_damaged_journal_nothing_more_is_said(tmp_path: Path) -> None:
    """What it lacks is no other fault, such as that an earlier ARTOS wrote it."""
    config = {"workload": "ppo", "settings": CARTPOLE, "folder": str(tmp_path)}
    (tmp_path / CONFIG).write_bytes(msgspec.json.encode(config))
    (tmp_path / "journal.jsonl").write_bytes(b'{"done":1,"by":"actor 0","asked":[1,2]}\n')
    with pytest.raises(Refused) as refused:
        replayed(tmp_path)
    damaged, *others = refused.value.faults
    assert "line 1 is no line of a journal" in damaged
    assert not [fault for fault in others if "not recorded" in fault]


RESUMED = {"rows": [], "past": []}


@pytest.mark.parametrize(
    ("settings", "resumed", "why"),
    [
        ({}, RESUMED, "an earlier ARTOS resumed it, .* which of its members went on"),
        ({"learners": 2}, RESUMED | {"states": "ab"}, "replicas of its learner went on with what"),
    ],
)
def test_a_run_that_went_on_with_what_its_members_held(
    tmp_path: Path, settings: dict[str, object], resumed: dict[str, object], why: str
) -> None:
    settings = CARTPOLE | {"checkpoint": "all", **settings}
    config = {"workload": "ppo", "settings": settings, "folder": str(tmp_path)}
    config["resumed"] = [resumed]
    (tmp_path / CONFIG).write_bytes(msgspec.json.encode(config))
    began = b'{"t":0.0,"began":1.5}\n'
    (tmp_path / "journal.jsonl").write_bytes(2 * began)
    with pytest.raises(Refused, match=why):
        replayed(tmp_path)


def test_past_versions_that_were_not_made_again_are_named() -> None:
    """A run that was resumed had them; each learner has its own."""
    past = {"learner": (2,), "rival": (3, 6)}
    part = Part(plan_of("CartPole-v1"), Script(), {}, past=past)
    found = {"learner": Kept(4, {}, {}, {2: {}}), "rival": Kept(9, {}, {}, {6: {}})}
    assert part.lacks(found) == [("rival", 3)]


def test_a_debugger_stops_only_before_a_version_that_an_update_made() -> None:
    """The first one is there before any; what was made and lost is made again."""
    call = Called(1, 64, 0, None)
    first = [Begun(-1, 0), Published(3), call, Published(5), call, Published(7), call]
    again = [Begun(1, 5), call, Published(7), call, Published(9)]
    tapes = [Recorded(Header(), records, Path()) for records in (first, again)]
    assert Part(plan_of("CartPole-v1"), Script(), {"learner": tapes}).made == {1, 2, 3}


def test_a_debugger_is_refused_after_the_end_that_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="the replay ends with version 40, before --break 41"):
        replayed(tmp_path, until=40, stop=41)


def test_no_version_is_before_the_first(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="ends with version -1, before the first one, 0"):
        replayed(tmp_path, until=-1)


HERE = {"weights": "block", "weights_folder": "", "server": ""}


@pytest.mark.parametrize("part", [0, 1, 2])
def test_texts_of_a_server_that_is_gone(tmp_path: Path, part: int) -> None:
    """It is not asked for, though a run of these settings would be refused without it.

    Also where only a part of the run had its texts written there.
    """
    way = {"weights": "http", "weights_folder": str(tmp_path), "server": "http://127.0.0.1:9"}
    *before, last = [way if number == part else HERE for number in range(3)]
    config = {"workload": "grpo", "settings": last, "folder": str(tmp_path)}
    config["resumed"] = [{"before": settings, "rows": [], "past": []} for settings in before]
    (tmp_path / CONFIG).write_bytes(msgspec.json.encode(config))
    with pytest.raises(Refused, match="a server outside of the run wrote its texts") as refused:
        replayed(tmp_path, trust=True)
    assert all("127.0.0.1" not in fault for fault in refused.value.faults)
