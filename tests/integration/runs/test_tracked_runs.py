"""Runs in trackers: the real packages, offline; and one that fails, without harm to the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import PATIENCE, ROOT
from real_runs import Artos, Outcome
from tracker_packages import interpreter

from head.records.progress_log import last_status, scalars

RUN = ("run", "counting.py:workload", "--total-steps", "64", "--run-dir", "runs/first")
BROKEN = """raise RuntimeError("no\\nserver")\n"""
"""A package that cannot even be imported."""


@pytest.mark.parametrize("where", ["--inline", ""])
def test_a_tracker_that_fails_is_told_and_stops_nothing(
    where: str, start: Callable[..., Artos], home: Path
) -> None:
    (home / "broken").mkdir()
    (home / "broken" / "wandb.py").write_text(BROKEN)
    path = os.pathsep.join((str(ROOT), str(home / "broken")))
    words = (*RUN, *([where] if where else []), "--track", "wandb", "--json")
    ended = start(*words, PYTHONPATH=path).wait()
    assert ended.status == 0
    assert ended.summary["outcome"] == "done"
    assert "tracker wandb has failed" in ended.err
    assert "artos track" in ended.err
    assert "server" in (home / "runs/first/logs/track-wandb.log").read_text()


def test_without_its_package_nothing_is_started(artos: Callable[..., Outcome], home: Path) -> None:
    refused = artos(*RUN, "--inline", "--track", "trackio")
    assert refused.status == 2
    assert "pip install 'artos[trackio]'" in refused.err
    assert not (home / "runs").exists()


READ = {
    "tensorboard": """if True:
        import json
        from pathlib import Path
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.plugins.hparams import metadata
        told = []
        for place in ("runs/first/events", "tensorboard/artos/first"):
            (read := EventAccumulator(place)).Reload()
            tags, hparams = read.Tags(), read.PluginTagToContent("hparams")
            begin = metadata.parse_session_start_info_plugin_data(
                hparams[metadata.SESSION_START_INFO_TAG])
            end = metadata.parse_session_end_info_plugin_data(
                hparams[metadata.SESSION_END_INFO_TAG])
            lags, ends = (sum(each.histogram_value.num for each in read.Histograms(name))
                          for name in ("lags", "episodes/return"))
            told.append({"names": sorted({*tags["scalars"], *tags["histograms"]}),
                         "files": sorted(Path(t).name for t in tags["images"] + tags["tensors"]),
                         "ended": end.status == 1, "lags": lags, "ends": ends,
                         "seed": begin.hparams["seed"].number_value})
        print(json.dumps(told[0] if told[0] == told[1] else told))""",
    "wandb": """if True:
        import glob, json, struct
        from wandb.proto import wandb_internal_pb2
        (path,) = glob.glob("wandb/offline-run-*/*.wandb")
        data, at, begun, names, exits = open(path, "rb").read(), 7, b"", set(), []
        while at + 7 <= len(data):  # the log format of LevelDB, in blocks of 32 KiB
            if (left := 32768 - at % 32768) < 7:
                at += left
                continue
            length, kind = struct.unpack_from("<HB", data, at + 4)
            begun += data[at + 7 : at + 7 + length]
            at += 7 + length
            if kind in (1, 4):
                record, begun = wandb_internal_pb2.Record.FromString(begun), b""
                names |= {i.key or "/".join(i.nested_key) for i in record.history.item}
                if record.HasField("exit"):
                    exits.append(record.exit.exit_code)
        files = [p.rpartition("/")[2] for p in glob.glob("wandb/offline-run-*/files/*")]
        print(json.dumps({"names": sorted(names), "files": files, "ended": exits == [0]}))""",
    "mlflow": """if True:
        import json, os
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
        from mlflow.tracking import MlflowClient
        client = MlflowClient("file:" + os.getcwd() + "/mlruns")
        (run,) = client.search_runs([client.get_experiment_by_name("artos").experiment_id])
        files = [f.path for f in client.list_artifacts(run.info.run_id)]
        print(json.dumps({"names": sorted(run.data.metrics), "files": files,
                          "ended": run.info.status == "FINISHED",
                          "seed": run.data.params["seed"]}))""",
    "trackio": """if True:
        import glob, json, sqlite3
        (path,) = glob.glob("trackio/*.db")
        read = sqlite3.connect(path)
        rows = [json.loads(m) for (m,) in read.execute("select metrics from metrics")]
        files = [name for (name,) in read.execute("select name from artifacts")]
        print(json.dumps({"names": sorted(set().union(*rows)), "files": files, "ended": True}))""",
}
"""Code that reads back what a tracker has, by the tracker's own package or from its own file."""
OWN = ("lags", "waited/", "episodes/", "_")
"""Begins of names that are histograms, or the tracker's own."""


@pytest.mark.long
@pytest.mark.parametrize("name", READ)
def test_a_run_is_in_a_real_tracker_by_the_names_that_tensorboard_has(
    name: str, artos: Callable[..., Outcome], home: Path
) -> None:
    program = interpreter()
    learned = ("run", "ppo", "--env", "CartPole-v1", "--total-steps", "4096")
    assert artos(*learned, "--run-dir", "runs/first", "--inline", "--json").status == 0
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "WANDB_MODE": "offline", "HF_HUB_OFFLINE": "1",
        "TRACKIO_DIR": str(home / "trackio"),
    }  # fmt: skip

    def ran(*words: str) -> Any:
        done = subprocess.run(
            [program, "-P", *words], cwd=home, env=environment, capture_output=True, text=True,
            timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    track = ("-m", "deploy.cli", "track", "first", "--to", name, "--json")
    sent = ran(*track)
    assert sent["rows"] > 0
    found = ran("-c", READ[name])
    status = last_status(home / "runs" / "first" / "progress.csv")
    assert status is not None
    assert {n for n in found["names"] if not n.startswith(OWN)} == scalars(status).keys()
    for own in ("lags", "episodes/return", "episodes/length"):
        assert any(each.startswith(own) for each in found["names"]), own
    assert found.get("lags", status.steps) == status.steps
    assert found.get("ends", status.episodes) == status.episodes
    assert any(each.startswith("summary.json") for each in found["files"])
    assert found["ended"]
    again = ran(*track)
    assert (again["rows"], again["id"]) == (0, sent["id"])


@pytest.mark.long
@pytest.mark.processes
def test_trackers_follow_a_run_from_its_start(
    start: Callable[..., Artos], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once; the request to stop is the run's, whose end they send."""
    monkeypatch.setattr(sys, "executable", str(interpreter()))
    trackers = [word for name in READ for word in ("--track", name)]
    words = ("run", "ppo", "--env", "CartPole-v1", "--actors", "1", "--total-steps", "20000000")
    environment = {"WANDB_MODE": "offline", "HF_HUB_OFFLINE": "1", "TRACKIO_DIR": str(home)}
    training = start(*words, "--run-dir", "runs/first", "--json", *trackers, **environment)

    def told(field: str) -> list[Any]:
        states = (home / "runs/first/tracked" / f"{name}.json" for name in READ)
        return [json.loads(path.read_text())[field] for path in states if path.exists()]

    training.until(lambda: len(told("rows")) == len(READ) and all(told("rows")))
    training.process.terminate()
    ended = training.wait()
    assert (ended.status, ended.summary["outcome"]) == (130, "interrupted")
    assert "has failed" not in ended.err
    end = time.monotonic() + PATIENCE  # where the machine is busy, they take longer than it waits
    while told("outcome") != len(READ) * ["interrupted"]:
        assert time.monotonic() < end, told("outcome")
        time.sleep(0.1)
