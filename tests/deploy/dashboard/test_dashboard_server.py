"""The dashboard as scripts and browsers ask it: a real server, real runs, and what is no run."""

from __future__ import annotations

import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from email.message import Message
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import anyio
import pytest
from damage import VALUES, places, with_field
from helpers import ROOT

from artos.errors import NoSuchRun, Refused
from artos.transport.keys import make_keys
from deploy.cli.__main__ import main
from deploy.dashboard import answers as answers_module
from deploy.dashboard.answers import Answers
from deploy.dashboard.app import app_of
from deploy.dashboard.server import TOKEN, serve
from deploy.dashboard.sources import Folders
from head.records.run_folder import RunFolder

HOSTILE = "<img src=x onerror=alert(1)>&\u202e"
SECONDS = 60.0
ACROSS = ("steps", "seconds", "updates")


class Answer(NamedTuple):
    status: int
    headers: Message
    body: bytes


class Asked:
    """A dashboard that is asked."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.name, self.port, self.token = parts.hostname, parts.port, parts.query[6:]

    def raw(self, path: str, method: str = "GET", **headers: str) -> Answer:
        with self.answering(path, method, **headers) as answer:
            return Answer(answer.status, answer.headers, answer.read())

    @contextmanager
    def answering(
        self, path: str, method: str = "GET", **headers: str
    ) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        with closing(connection):
            connection.request(method, path, headers=headers)
            with connection.getresponse() as answer:
                yield answer

    def get(self, path: str, status: int = 200) -> Any:
        answer = self.raw(f"/api/{path}")
        found = json.loads(answer.body)
        assert answer.status == status, found
        return found


@contextmanager
def dashboard(*arguments: str, **environment: str) -> Iterator[Asked]:
    """The command as scripts start it; told to stop, it ends as one that has done its work."""
    command = (sys.executable, "-m", "deploy.cli", "dashboard", "--port", "0", "--json")
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    with subprocess.Popen((*command, *arguments), stdout=subprocess.PIPE, env=env) as process:
        try:
            assert process.stdout is not None
            yield Asked(json.loads(process.stdout.readline())["address"])
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()


async def called(app: Any, address: str, told: list[Any]) -> tuple[int, Any]:
    """What the application answers without a server; ``told`` has it even if it raises."""
    path, _, query = address.partition("?")

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        told.append(message)

    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "root_path": "",
        "query_string": query.encode(), "headers": [(b"host", b"localhost")], "scheme": "http",
        "server": ("localhost", 80), "client": ("localhost", 1), "http_version": "1.1",
    }  # fmt: skip
    await app(scope, receive, send)
    return told[0]["status"], json.loads(b"".join(each.get("body", b"") for each in told))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is over, one that was killed, and one that had another seed and more luck."""
    root = tmp_path_factory.mktemp("runs")
    words = ("run", "ppo", "--inline", "--total-steps", "1024", "--json")
    assert main([*words, "--run-dir", str(root / "seed1")]) == 0
    for other in ("seed2", "killed"):
        shutil.copytree(root / "seed1", root / other)
    (root / "killed" / "summary.json").unlink()
    header, *episodes = (root / "seed1" / "episodes.csv").read_text().splitlines()
    better = (f"{step},{2 * float(value)},{size}" for step, value, size in map(_cells, episodes))
    (root / "seed2" / "episodes.csv").write_text("\n".join([header, *better, ""]))
    return root


def _cells(line: str) -> list[str]:
    return line.split(",")


@pytest.fixture(scope="module")
def asked(runs: Path) -> Iterator[Asked]:
    with dashboard("--runs", str(runs)) as found:
        yield found


def test_runs_are_listed_whatever_became_of_them(asked: Asked) -> None:
    found = {run["name"]: run["outcome"] for run in asked.get("runs")["runs"]}
    assert found == {"seed1": "done", "seed2": "done", "killed": "failed"}
    about = asked.get("runs/killed")
    assert "was killed" in about["why"]
    assert about["config"]["settings"]["env"] == "CartPole-v1"
    assert about["config"]["learners"] == ["learner"]
    assert about["journal"]["to"] > about["journal"]["from"] >= 0
    assert asked.get("runs/nothing", 404) == {"error": ["there is no run 'nothing' here"]}


@pytest.mark.parametrize("run", ["seed1", "killed"])
def test_each_view_is_an_answer(asked: Asked, run: str) -> None:
    timeline = asked.get(f"runs/{run}/timeline")
    assert timeline["exact"]
    assert {"learner", "actor 0"} <= {span["member"] for span in timeline["spans"]}
    middle = (timeline["begin"] + timeline["end"]) / 2
    part = asked.get(f"runs/{run}/timeline?from={middle}&to={middle + 0.01}")
    assert 0 < len(part["spans"]) < len(timeline["spans"])
    steps = asked.get(f"runs/{run}/path?actor=0&row=5")["steps"]
    assert [step["what"] for step in steps] == ["round", "firing", "update"]
    assert asked.get(f"runs/{run}/path?version=1")["steps"][1]["member"] == "learner"
    of_version = asked.get(f"runs/{run}/path?version=1")
    assert asked.get(f"runs/{run}/path?update=1") == of_version
    assert of_version["sources"][0]["what"] == "round"
    lags = asked.get(f"runs/{run}/lags")
    assert (lags["of"], lags["counts"]) == ("rows", {"0": 1024}), "each row, also of one killed"
    wiring = asked.get(f"runs/{run}/wiring")
    assert {node["name"] for node in wiring["nodes"]} == {
        "actors", "learner", "rows", "learner/model_param",
    }  # fmt: skip
    fired = {(edge["from"], edge["to"], edge["target"]) for edge in wiring["edges"]}
    assert fired == {
        ("rows", "learner", "learner.update"), ("learner/model_param", "actors", "actors.sample"),
        ("actors", "rows", ""), ("learner", "learner/model_param", ""),
    }  # fmt: skip
    logs = asked.get(f"runs/{run}/logs")
    assert "run" in logs["logs"]
    assert asked.get(f"runs/{run}/logs?log=run&offset=3")["text"] == logs["text"][3:]


def test_prometheus_has_its_numbers_here_too(asked: Asked) -> None:
    answer = asked.raw("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'artos_run_state{run="seed1",state="done"} 1.0' in answer.body.decode()


def test_curves_of_runs_that_differ_by_their_seed_have_a_spread(asked: Asked) -> None:
    found = asked.get("curves?runs=seed1,seed2")
    assert [curve["name"] for curve in found["curves"]] == ["seed1", "seed2"]
    (group,) = found["groups"]
    assert (group["name"], group["runs"]) == ("ppo on CartPole-v1", 2)
    for low, mean, high in zip(group["low"], group["mean"], group["high"], strict=True):
        assert low <= mean <= high
    assert any(low < high for low, high in zip(group["low"], group["high"], strict=True))
    other = asked.get("curves?runs=seed1&what=steps_per_second&across=seconds")
    assert other["curves"][0]["x"] == sorted(other["curves"][0]["x"])
    assert "metrics/loss" in other["columns"] or len(other["columns"]) > 10
    assert "not 'time'" in asked.get("curves?across=time", 422)["error"][0]
    assert "no run has 'nope'" in asked.get("curves?what=nope", 422)["error"][0]


def test_runs_of_other_settings_are_of_another_group(runs: Path, tmp_path: Path) -> None:
    for name, lr in (("one", 0.1), ("two", 0.1), ("other", 0.2)):
        shutil.copytree(runs / "seed1", tmp_path / name)
        config = json.loads((tmp_path / name / "config.json").read_text())
        config["settings"]["lr"] = lr
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    found = Answers(Folders(tmp_path)).curves({})
    assert {group.name: (group.runs, group.seeds) for group in found.groups} == {
        "ppo on CartPole-v1 lr=0.1": (2, 1), "ppo on CartPole-v1 lr=0.2": (1, 1),
    }  # fmt: skip


def test_a_mean_ends_where_the_first_of_its_runs_does(runs: Path, tmp_path: Path) -> None:
    for name, returns in (("short", 4 * [1.0]), ("long", 8 * [3.0])):
        shutil.copytree(runs / "seed1", tmp_path / name)
        lines = "".join(f"{10 * n},{each},10\n" for n, each in enumerate(returns, 1))
        (tmp_path / name / "episodes.csv").write_text(f"step,return,length\n{lines}")
    (group,) = Answers(Folders(tmp_path)).curves({}).groups
    assert (group.x[0], group.x[-1], {*group.mean}) == (10, 40, {2.0})
    (tmp_path / "long" / "episodes.csv").write_text("step,return,length\n90,3,10\n")
    (group,) = Answers(Folders(tmp_path)).curves({}).groups
    assert (group.runs, group.x, group.mean) == (2, [], [])


def test_without_progress_there_is_no_curve_over_seconds(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "seed1", tmp_path / "r")
    (tmp_path / "r" / "evaluations.csv").write_text(
        "version,steps,updates,mean_return,std,episodes,mean_length,seconds\n1,9,1,5,1,2,9,1\n"
    )
    over = {across: Answers(Folders(tmp_path)).curves({"across": across}) for across in ACROSS}
    assert all(found.curves[0].x and found.evaluations for found in over.values())
    progress = tmp_path / "r" / "progress.csv"
    progress.write_text(progress.read_text().partition("\n")[0] + "\n")
    over = {across: Answers(Folders(tmp_path)).curves({"across": across}) for across in ACROSS}
    there = [bool(found.curves[0].x and found.evaluations) for found in over.values()]
    assert there == [True, False, False]
    assert not any(found.faults for found in over.values())


def test_a_run_whose_records_are_refused_does_not_take_the_others_curves(runs: Path) -> None:
    class Shared(Folders):
        def folder(self, name: str, what: str = "") -> Path:
            if name == "killed":
                raise Refused([f"run {name} is ben's"])
            return super().folder(name)

    found = Answers(Shared(runs)).curves({})
    assert {curve.name for curve in found.curves} == {"seed1", "seed2"}
    assert found.faults == {"killed": "run killed is ben's"}


def test_runs_that_there_is_no_room_for_are_said_to_be_left_out(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers_module, "_MOST_RUNS", 2)
    answers = Answers(Folders(runs))
    for query, which in (({}, "the last 2"), ({"runs": "seed2,killed,seed1"}, "the first 2")):
        found = answers.curves(query)
        assert len(found.curves) == 2
        assert which in found.faults["1 more runs"]
    assert {curve.name for curve in found.curves} == {"seed2", "killed"}


def test_the_bill_and_the_cluster_are_those_of_the_commands(asked: Asked, runs: Path) -> None:
    bill = asked.get("bill")
    assert bill["total"]["usage"]["cpu_seconds_held"] == pytest.approx(
        sum(run["usage"]["cpu_seconds_held"] for run in bill["runs"])
    )
    cluster = asked.get("cluster")
    assert len(cluster["nodes"]) == 1
    assert {"resources", "holders", "queue"} <= cluster["pool"].keys()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("runs/seed1/timeline?from=x", "must be a number"),
        ("runs/seed1/timeline?from=2&to=1", "must not come after"),
        ("runs/seed1/timeline?from=nan", "must be a number"),
        ("runs/seed1/path?actor=0", "row= must be a number"),
        ("runs/seed1/path?version=1e99", "no update"),
        ("runs/seed1/path?update=1e99", "there is no update"),
        ("runs/seed1/path?actor=inf&row=1", "must be a number"),
        ("runs/seed1/logs?log=nothing", "no log 'nothing'"),
        ("runs/seed1/logs?log=../../config", "no log"),
        ("runs/seed1/logs?offset=x", "must be a number"),
    ],
)
def test_a_wrong_question_is_told_why(asked: Asked, path: str, said: str) -> None:
    assert said in asked.get(path, 422)["error"][0]


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2fruns%2fseed1", "%2fetc", "", "a%00b"])
def test_a_name_leads_nowhere_else(asked: Asked, name: str) -> None:
    assert asked.raw(f"/api/runs/{name}/timeline").status in (404, 422)


def test_what_happens_is_told_as_it_does(asked: Asked) -> None:
    with asked.answering("/api/events?run=seed1") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        told = json.loads(answer.readline().removeprefix(b"data: "))
    assert (told["name"], told["over"]) == ("seed1", True)
    assert asked.raw("/api/events?run=nothing").status == 404


def test_who_listens_while_the_head_is_away_is_told_and_goes_on_listening(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys")
    with dashboard("--head", "tcp://127.0.0.1:9", "--keys", str(tmp_path / "keys")) as asked:
        with asked.answering("/api/events") as answer:
            assert answer.status == 200, "a browser gives a stream up that is refused"
            told = json.loads(answer.readline().removeprefix(b"data: "))
        assert "there is no head at tcp://127.0.0.1:9" in told["error"][0]
        assert asked.get("cluster", 503)["error"] == told["error"]


def test_the_page_runs_nothing_but_its_own_module(asked: Asked) -> None:
    answer = asked.raw("/")
    assert answer.status == 200
    assert "'unsafe" not in answer.headers["content-security-policy"]
    page = answer.body.decode()
    for name in ("style.css", "dashboard.js"):
        assert f"page/{name}" in page
        assert asked.raw(f"/page/{name}").status == 200
    module = (ROOT / "deploy" / "dashboard" / "page" / "dashboard.js").read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in module, "names of runs and logs would become markup"
    assert asked.raw("/page/../app.py").status == 404


def test_who_wants_to_change_something_is_told_that_one_can_only_ask(asked: Asked) -> None:
    for path in ("/api/runs", "/", "/api/runs/seed1/logs"):
        refused = asked.raw(path, "POST")
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
        assert json.loads(refused.body)["error"] == [f"{path} can only be read: ask with GET"]


def test_only_this_machine_is_answered_without_a_token(asked: Asked) -> None:
    assert asked.raw("/api/runs", Host="evil.example").status == 400
    assert asked.raw("/api/runs", Host=f"localhost:{asked.port}").status == 200


def test_beyond_this_machine_a_token_is_needed(runs: Path) -> None:
    with dashboard("--runs", str(runs), "--host", "0.0.0.0") as asked:
        assert len(asked.token) >= 32
        assert asked.name == socket.gethostname().lower(), "0.0.0.0 leads nowhere from elsewhere"
        for path in ("/", "/api/runs", "/api/events", "/page/dashboard.js"):
            refused = asked.raw(path)
            assert refused.status == 401
            assert b"has the token" in refused.body
        assert asked.raw("/api/runs?token=guessed").status == 401
        for word in ("Bearer", "bearer"):
            assert asked.raw("/api/runs", Authorization=f"{word} {asked.token}").status == 200
        assert asked.raw("/api/runs", Authorization=f"Basic {asked.token}").status == 401
        let_in = asked.raw(f"/?token={asked.token}")
        assert let_in.status == 307
        assert "token" not in let_in.headers["location"]
        cookie = let_in.headers["set-cookie"]
        assert "HttpOnly" in cookie
        with dashboard("--runs", str(runs), "--host", "0.0.0.0") as second:
            its = second.raw(f"/?token={second.token}").headers["set-cookie"]
            assert its.partition("=")[0] != cookie.partition("=")[0], "browsers know no ports"
        assert "samesite=strict" in cookie.lower()
        assert asked.raw("/api/runs", Cookie=cookie.partition(";")[0]).status == 200


def test_a_token_of_ones_own_is_no_short_one(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "guess me")
    with pytest.raises(Refused, match="16 characters"):
        serve(Answers(Folders(runs)), "0.0.0.0", 0, str)


def test_an_address_that_is_taken_is_refused(runs: Path, asked: Asked) -> None:
    with pytest.raises(Refused, match="something listens there already"):
        serve(Answers(Folders(runs)), "127.0.0.1", asked.port or 0, str)
    with pytest.raises(Refused, match=r"cannot listen on no\.such\.host\.invalid"):
        serve(Answers(Folders(runs)), "no.such.host.invalid", 0, str)


def test_named_runs_are_shown_and_no_others(runs: Path, tmp_path: Path) -> None:
    link = tmp_path / "a link"
    link.symlink_to(runs / "seed1")
    with dashboard(str(link), str(runs / "killed")) as asked:
        assert {run["name"] for run in asked.get("runs")["runs"]} == {"a link", "killed"}
        assert asked.get(f"runs/{quote('a link')}/timeline")["spans"]
        assert asked.get("runs/seed1", 404)
    with pytest.raises(Refused, match="one name"):
        Folders(tmp_path, [runs / "seed1", runs / ".." / runs.name / "seed1"])


def test_the_others_are_shown_when_a_named_run_has_been_removed(runs: Path, tmp_path: Path) -> None:
    for name in ("kept", "removed"):
        shutil.copytree(runs / "seed1", tmp_path / name)
    answers = Answers(Folders(tmp_path, [tmp_path / "removed", tmp_path / "kept"]))
    shutil.rmtree(tmp_path / "removed")
    assert [run["name"] for run in answers.runs({})["runs"]] == ["kept"]
    assert [run["name"] for run in answers.bill({})["runs"]] == ["kept"]
    with pytest.raises(NoSuchRun):
        answers.run("removed", {})


def test_whatever_a_folder_holds_is_answered_in_words(runs: Path, tmp_path: Path) -> None:
    """Damaged, foreign, hostile: nothing of it is executed, or read where it leads elsewhere."""
    root = tmp_path / "runs"
    shutil.copytree(runs / "seed1", root / HOSTILE)
    shutil.copytree(runs / "seed1", root / "damaged")
    (root / "damaged" / "journal.jsonl").write_bytes(b"\xff" * 500 + b"\n")
    (root / "damaged" / "summary.json").write_text("{")
    (root / "damaged" / "episodes.csv").write_text("step,return,length\nx,y,z\n")
    shutil.copytree(runs / "seed1", root / "fifo")
    (root / "fifo" / "journal.jsonl").unlink()
    os.mkfifo(root / "fifo" / "journal.jsonl")
    RunFolder.create(root / "begun", {}).close()
    RunFolder.create(root / "no\udcfftext", {}).close()
    secret = tmp_path / "secret.log"
    secret.write_text("secret")
    (root / "damaged" / "logs" / "out.log").symlink_to(secret)
    (root / HOSTILE / "logs" / "run.log").write_text(HOSTILE)
    with dashboard("--runs", str(root)) as asked:
        found = {run["name"]: run for run in asked.get("runs")["runs"]}
        assert set(found) == {HOSTILE, "damaged", "fifo", "begun", "no\udcfftext"}
        assert "summary.json is damaged" in found["damaged"]["why"]
        timeline = asked.get("runs/damaged/timeline")
        assert (timeline["spans"], timeline["damaged"]) == ([], 1)
        assert "out" not in asked.get("runs/damaged/logs")["logs"]
        assert "no log 'out'" in asked.get("runs/damaged/logs?log=out", 422)["error"][0]
        assert "no regular file" in asked.get("runs/fifo/timeline", 422)["error"][0]
        assert "no regular file" in asked.get("runs/fifo")["journal"]["damage"]
        assert "config.json" in asked.get("runs/begun/timeline", 422)["error"][0]
        odd = asked.get("runs/" + quote("no\ufffdtext"), 422)
        assert "config.json is damaged" in odd["error"][0], "it is found as a browser names it"
        faults = asked.get("curves")["faults"]
        assert {"damaged", "begun"} <= faults.keys()
        assert HOSTILE not in faults
        assert asked.get(f"runs/{quote(HOSTILE)}/logs?log=run")["text"] == HOSTILE
        assert asked.get("bill")["damage"].keys() == {"damaged"}


REAL = (
    {"t": 0.0, "began": 1.7e9},
    {"t": 0.1, "ready": "actor 0", "start": "moved", "from": "w1", "to": "w2", "seconds": 0.1},
    {"t": 0.2, "firing": 1, "trigger": "actors.sample", "version": 0, "actors": [0]},
    {
        "t": 0.3, "done": 1, "by": "actor 0", "version": 0, "stop": 256, "asked": [0],
        "rows": 7, "seconds": 0.1, "slot": 0.1, "rested": [["frozen", 0.1, 0.1]],
        "beside": {"model": 1},
    },
    {
        "t": 0.4, "firing": 2, "trigger": "learner.update", "version": 0, "after": "actor 0",
        "claims": [[0, 0, 256]], "dropped": [[0, 256, 300, 1]],
    },
    {
        "t": 0.5, "done": 2, "by": "learner", "version": 1, "seconds": 0.1, "lag_mean": 0.0,
        "lag_max": 0, "lags": [[0, 0.0, 0]], "times": {"learn": 0.1}, "cpu": 0.1,
    },
    {"again": 3, "by": "actor 0", "version": 1, "stop": 512, "asked": [0, 0], "kept": 400},
    {"died": "actor 0", "step": 9, "why": "killed"},
    {"lost": 3, "actor": 0, "node": "w1", "from": 128, "granted": 256},
    {"set": {"learner.lr": 0.5}, "configuration": 1, "version": 1},
    {"t": 0.6, "quota": "", "blocked": 0.1, "queued": 0.1},
)  # fmt: skip
"""A line of every kind."""
ASKED = (
    "", "/timeline", "/path?actor=0&row=5", "/path?actor=0&row=260", "/path?actor=0&row=390",
    "/path?version=1", "/lags", "/wiring",
)  # fmt: skip


def damaged_journals() -> Iterator[tuple[str, bytes]]:
    """What was done to a line, and a journal with it; then such as nobody wrote as one."""
    for number, line in enumerate(REAL):
        text = json.dumps(line)
        for at in places(line):
            for value in (*VALUES, 10**400, [[0, 0.5, 1e300, -1]]):
                before = [json.dumps(each) for each in REAL[:number]]
                after = [json.dumps(each) for each in REAL[number + 1 :]]
                lines = [*before, with_field(text, at, value), *after, ""]
                yield f"{number}: {at} = {value!r}"[:120], "\n".join(lines).encode()
    whole = "\n".join(json.dumps(each) for each in REAL).encode()
    for cut in range(0, len(whole), 17):
        yield f"cut at {cut}", whole[:cut]
        yield f"cut at {cut}, and gone on", whole[:cut] + b"\n" + whole + b"\n"
    yield "foreign", b'{"a": [{"b": "c"}]}\n[1]\n"text"\n7\nnull\n<html>\n' + whole + b"\n"


@pytest.mark.parametrize("share", [0.1, pytest.param(1.0, marks=pytest.mark.long)])
def test_a_damaged_journal_is_answered_in_words(runs: Path, tmp_path: Path, share: float) -> None:
    """Wrong types, cut lines, foreign JSON: what can be understood is shown, and nothing fails."""
    shutil.copytree(runs / "killed", tmp_path / "r")
    (tmp_path / "r" / "progress.csv").unlink()  # which has the lags, too
    app, chance = app_of(Answers(Folders(tmp_path))), random.Random("journals")

    async def ask_for_all() -> None:
        for what, journal in damaged_journals():
            if chance.random() > share:
                continue
            (tmp_path / "r" / "journal.jsonl").write_bytes(journal)
            for view in ASKED:
                asking = f"{view} where {what}"
                status, found = await called(app, f"/api/runs/r{view}", [])
                assert status in (200, 422), asking
                assert (status == 422) == ("error" in found), asking

    anyio.run(ask_for_all)


def test_a_fault_of_the_dashboard_itself_is_said_in_words(runs: Path) -> None:
    class Broken(Folders):
        def cluster(self) -> Any:
            raise ZeroDivisionError("of all things")

    told = list[Any]()
    with pytest.raises(ZeroDivisionError):  # which the server logs
        anyio.run(called, app_of(Answers(Broken(runs))), "/api/runs", told)
    assert told[0]["status"] == 500
    assert "ZeroDivisionError: of all things" in json.loads(told[1]["body"])["error"][0]


def test_a_log_of_the_run_itself_that_leads_elsewhere_is_not_read(
    runs: Path, tmp_path: Path
) -> None:
    shutil.copytree(runs / "seed1", tmp_path / "runs" / "r")
    (tmp_path / "secret.log").write_text("secret")
    (tmp_path / "runs" / "r" / "logs" / "run.log").unlink(missing_ok=True)
    (tmp_path / "runs" / "r" / "logs" / "run.log").symlink_to(tmp_path / "secret.log")
    answers = Answers(Folders(tmp_path / "runs"))
    for query in ({}, {"log": "run"}, {"log": "secret"}):
        with pytest.raises(Refused, match="no log"):
            answers.log("r", query)


def test_a_run_that_goes_on_is_seen_to_grow(runs: Path, tmp_path: Path) -> None:
    """Two dashboards look at it; neither keeps anything, and the run is none the wiser."""
    shutil.copytree(runs / "seed1", tmp_path / "runs" / "r")
    journal = tmp_path / "runs" / "r" / "journal.jsonl"
    whole = journal.read_bytes()
    both = [Answers(Folders(tmp_path / "runs")) for _ in range(2)]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    ends = []
    for part in range(1, 5):
        journal.write_bytes(whole[: part * len(whole) // 4])
        shown = [each.timeline("r", {}) for each in both]
        assert shown[0] == shown[1]
        ends.append(shown[0].end)
    assert ends == sorted(set(ends))
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    assert {path for path in after if after[path] != before.get(path)} == {journal}


def test_without_its_packages_it_says_which(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [each for each in sys.modules if each.startswith("deploy.dashboard.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["dashboard"]) == 2
    assert "pip install 'artos[dashboard]'" in capsys.readouterr().err
