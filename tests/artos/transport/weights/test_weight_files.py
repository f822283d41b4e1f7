"""Weights by way of a folder: readers find the newest version as a whole, or say what is wrong."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from killed_inside import killed_inside

from artos.clock import Deadline
from artos.errors import DeadlineExceeded, WeightsUnusable
from artos.transport.weights.channel import Channel, Way
from artos.transport.weights.files import SIGNAL, WEIGHTS, Files

LAYOUT = (("weight", (2, 3)), ("bias", (3,)))
NONE: Any = None


def weights(version: int) -> Any:
    return np.arange(9, dtype=np.float32) + version


def ends(folder: Path, generation: int = 0, patience: float = 60.0) -> tuple[Channel, Files]:
    """The learner's end and an actor's."""
    way = Way("files", str(folder))
    return way.opened(LAYOUT, generation, patience), Files(folder, LAYOUT, generation, patience)


def test_an_actor_has_what_the_learner_sent(tmp_path: Path) -> None:
    learner, actor = ends(tmp_path / "new" / "folder")
    for version in (0, 1, 5):
        learner.send(version, weights(version))
        found, params = actor.receive(version, NONE)
        assert found == version
        np.testing.assert_array_equal(params, weights(version))
    assert actor.receive(3, NONE)[0] == 5, "or a newer one"


def test_tensors_have_their_names_so_that_others_can_load_them(tmp_path: Path) -> None:
    learner, actor = ends(tmp_path)
    learner.send(7, weights(7))
    assert actor.awaited(7, Deadline(0)).folder == "step_7"
    found = safetensors.numpy.load_file(tmp_path / "run_0" / "step_7" / WEIGHTS)
    np.testing.assert_array_equal(found["weight"], weights(7)[:6].reshape(2, 3))
    np.testing.assert_array_equal(found["bias"], weights(7)[6:])


def test_an_actor_waits_for_its_version(tmp_path: Path) -> None:
    learner, actor = ends(tmp_path)
    learner.send(0, weights(0))
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.append(actor.receive(1, NONE)[0]))
    reader.start()
    learner.send(1, weights(1))
    reader.join(60)
    assert found == [1]


def test_one_that_never_comes_is_named(tmp_path: Path) -> None:
    learner, actor = ends(tmp_path, patience=0.0)
    with pytest.raises(DeadlineExceeded, match=r"version 0 of the weights .* has no version$"):
        actor.receive(0, NONE)
    learner.send(0, weights(0))
    with pytest.raises(DeadlineExceeded, match=r"version 4 of the weights .*which has version 0$"):
        actor.receive(4, NONE)


def test_only_the_last_versions_are_kept_and_late_readers_take_the_newest(tmp_path: Path) -> None:
    class Slow(Files):
        def awaited(self, version: int, deadline: Deadline) -> Any:
            found = super().awaited(version, deadline)
            if found.version == 0:
                for newer in range(1, 10):
                    learner.send(newer, weights(newer))
            return found

    learner, _ = ends(tmp_path)
    learner.send(0, weights(0))
    version, params = Slow(tmp_path, LAYOUT, 0, 60.0).receive(0, NONE)
    assert version == 9
    np.testing.assert_array_equal(params, weights(9))
    kept = sorted(path.name for path in (tmp_path / "run_0").glob("step_*"))
    assert kept == [f"step_{version}" for version in range(2, 10)]


def test_what_a_killed_learner_did_not_come_to_remove_goes_with_the_next_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, _ = ends(tmp_path)
    for version in range(8):
        learner.send(version, weights(version))
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        learner.send(8, weights(8))
    again, _ = ends(tmp_path)
    again.send(8, weights(8))
    (tmp_path / "run_0" / "step_of_mine").mkdir()
    again.send(9, weights(9))
    kept = sorted(path.name for path in (tmp_path / "run_0").glob("step_*"))
    assert kept == [*(f"step_{version}" for version in range(2, 10)), "step_of_mine"]


def test_sending_a_version_again_changes_nothing(tmp_path: Path) -> None:
    """As a learner does that goes on from it."""
    learner, actor = ends(tmp_path)
    learner.send(3, weights(3))
    ends(tmp_path)[0].send(3, weights(99))
    np.testing.assert_array_equal(actor.receive(3, NONE)[1], weights(3))


@pytest.mark.processes
@pytest.mark.parametrize("synced", [1, 2, 3, 4])
def test_a_learner_is_killed_while_it_writes(
    synced: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file, its folder, the signal or its folder are written, but not on the disk yet."""
    learner, actor = ends(tmp_path)
    learner.send(0, weights(0))

    def write(halt: Callable[[], Any]) -> None:
        left, sync = iter(range(1, synced)), os.fsync
        monkeypatch.setattr(os, "fsync", lambda file: sync(file) if next(left, 0) else halt())
        learner.send(1, weights(1))

    killed_inside(write)
    found, params = actor.receive(0, NONE)
    assert found == (synced == 4), "a signal names what is there as a whole"
    np.testing.assert_array_equal(params, weights(found))
    ends(tmp_path)[0].send(1, weights(1))
    found, params = actor.receive(1, NONE)
    assert found == 1
    ends(tmp_path)[0].send(2, weights(2))
    assert not [*tmp_path.rglob(".*.tmp")], "drafts of the killed one"
    np.testing.assert_array_equal(params, weights(1))


def test_a_resumed_run_has_none_of_the_versions_of_before(tmp_path: Path) -> None:
    learner, _ = ends(tmp_path)
    learner.send(8, weights(8))
    learner, actor = ends(tmp_path, generation=1)
    assert actor.signal() is None
    learner.send(5, weights(5))
    assert actor.receive(5, NONE)[0] == 5


def test_a_folder_of_another_run_is_left_alone(tmp_path: Path) -> None:
    learner, actor = ends(tmp_path)
    learner.send(8, weights(8))
    with pytest.raises(WeightsUnusable, match="has version 8 already, and this run is at version"):
        ends(tmp_path)[0].send(0, weights(0))
    assert actor.receive(8, NONE)[0] == 8


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        ({"weight": weights(0)[:6].reshape(2, 3)}, "of another model: bias differ"),
        ({"weight": np.zeros((3, 2), np.float32), "bias": weights(0)[6:]}, "model: weight differ"),
        ({"weight": np.zeros((2, 3)), "bias": weights(0)[6:]}, "of another model: weight differ"),
        (None, "it is no safetensors file"),
    ],
)
def test_a_file_of_another_model_is_told(arrays: Any, why: str, tmp_path: Path) -> None:
    learner, actor = ends(tmp_path)
    learner.send(0, weights(0))
    data = b"no weights" if arrays is None else safetensors.numpy.save(arrays)
    (tmp_path / "run_0" / "step_0" / WEIGHTS).write_bytes(data)
    with pytest.raises(WeightsUnusable, match=why):
        actor.receive(0, NONE)


def test_a_signal_that_is_none(tmp_path: Path) -> None:
    learner, actor = ends(tmp_path)
    learner.send(0, weights(0))
    (tmp_path / "run_0" / SIGNAL).write_text("step_0")
    with pytest.raises(WeightsUnusable, match="it is no signal"):
        actor.receive(0, NONE)


@pytest.mark.parametrize(
    ("way", "fault"),
    [
        (Way(), None),
        (Way("files", "/shared/texts"), None),
        (Way("mail"), "weights must be one of block, files, http, not 'mail'"),  # type: ignore
        (Way(folder="/x"), "weights_folder=/x is of no use here: leave it out, or add weights=fi"),
        (Way("files", "/x", "http://h:1"), "server=http://h:1 is of no use here: leave it out"),
        (Way("files", "texts"), "weights=files goes by way of a folder, and weights_folder='texts"),
        (Way("http", "/x", "here"), "weights=http: server='here' is no address: write server="),
        (Way("http", "/x", "http://a:b@h:1"), "server=http://h has more than host, port and path"),
    ],
)
def test_a_way_that_leads_nowhere_is_told(way: Way, fault: str | None) -> None:
    found = [*way.faults()]
    assert [each.startswith(fault or "") for each in found] == [True] * (fault is not None), found
