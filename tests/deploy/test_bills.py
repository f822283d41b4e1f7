"""`artos usage`: bills of live and finished runs, their sum, and what they cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from artos.errors import Refused
from artos.protocol.usage import Usage, flat
from artos.protocol.views import RunFacts, RunView
from deploy.cli.__main__ import main
from deploy.client.bills import Prices, bill, by_user, table, total
from deploy.client.overview import text

ONE = Usage(cpu_seconds_held=10.0, cpu_seconds_used=4.0, waits={"slot": 2.0})
TWO = Usage(device_seconds_held=3.0, bytes_moved=5_000_000, waits={"slot": 1.0, "room": 4.0})


def live(usage: Usage) -> RunView:
    return RunView(name="one", user="ann", state="running", facts=RunFacts(usage=flat(usage)))


def over(usage: Usage) -> RunView:
    summary = {"usage": usage.bill}
    return RunView(name="two", user="ben", state="done", facts=None, summary=summary)


def test_live_and_finished_runs_have_the_same_bill() -> None:
    assert bill(live(ONE), None)["usage"] == ONE.bill == bill(over(ONE), None)["usage"]


def test_a_run_that_has_not_begun_has_used_nothing() -> None:
    assert bill(RunView(name="r", state="queued", facts=None), None)["usage"] == Usage().bill


def test_the_sum_is_of_all_runs() -> None:
    prices = Prices("EUR", {"cpu_seconds_held": 0.5, "device_seconds_held": 2.0})
    bills = [bill(live(ONE), prices), bill(over(TWO), prices)]
    found = total(bills)
    assert found["usage"] == Usage.total([ONE, TWO]).bill
    assert (bills[0]["cost"], bills[1]["cost"], found["cost"]) == (5.0, 6.0, 11.0)
    shown = text(table(bills, prices))
    assert "cost EUR" in shown
    assert "all" in shown
    assert "slot 3.0 s, room" in shown


def test_each_user_has_a_sum() -> None:
    bills = [bill(live(ONE), None), bill(over(TWO), None), bill(over(TWO), None)]
    users = by_user(bills)
    assert users.keys() == {"ann", "ben"}
    assert users["ann"]["usage"] == ONE.bill
    assert users["ben"]["usage"] == Usage.total([TWO, TWO]).bill
    assert total(users.values())["usage"] == total(bills)["usage"]
    of_all = [line.split()[:3] for line in text(table(bills, None)).splitlines() if "all" in line]
    assert of_all == [["all", "ann", "10.0"], ["all", "ben", "0.0"], ["all", "10.0", "s"]]


def test_prices_are_refused_all_at_once(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(
        'currency = 3\ncpu_second_held = 1\nbytes_moved = -1\nparked_mb_seconds = "x"\n'
    )
    with pytest.raises(Refused) as refused:
        Prices.load(file)
    assert len(refused.value.faults) == 4
    assert "cpu_seconds_held" in str(refused.value)
    with pytest.raises(Refused, match=r"nothing\.toml"):
        Prices.load(tmp_path / "nothing.toml")


def test_the_command_tells_of_a_finished_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARTOS_HEAD", raising=False)
    run = tmp_path / "runs" / "r"
    run.mkdir(parents=True)
    (run / "config.json").write_text("{}")
    (run / "summary.json").write_text(json.dumps({"outcome": "done", "usage": ONE.bill}))
    (tmp_path / "prices.toml").write_text("cpu_seconds_held = 0.5\n")
    assert main(["usage", "r", "--json", "--prices", "prices.toml"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["name"], told["state"], told["cost"]) == ("r", "done", 5.0)
    assert told["usage"] == ONE.bill
    assert main(["usage", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in answer["runs"]] == ["r"]
    assert [*answer["users"]] == [run.owner()]
    assert answer["total"]["usage"] == ONE.bill
    (run / "progress.csv").write_text("steps\nx\n")
    assert main(["usage"]) == 0, "the summary has all"
    (run / "summary.json").unlink()
    for words in (["usage"], ["usage", "r"]):
        assert main(words) == 2
        assert "progress.csv is damaged" in capsys.readouterr().err
    assert main(["status"]) == 0, "other runs are shown even so"
