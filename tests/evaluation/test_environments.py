"""Environments of baselines: made once, made again when pins change, absent with a reason."""

import pytest

from evaluation.baselines import environments
from evaluation.baselines.environments import BaselineAbsent, Environment, prepare

pytestmark = [pytest.mark.processes, pytest.mark.long]


@pytest.fixture
def baseline(tmp_path, monkeypatch):
    """An environment that needs no network: pip itself is its only package."""
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    made = Environment("toy", ("pip",), "import pip", torch="pip")
    monkeypatch.setitem(environments.BASELINES, "toy", made)
    return made


def test_an_environment_is_made_once(baseline):
    said = []
    assert prepare("toy", said.append).python.exists()
    assert len(said) == 4
    prepare("toy", said.append)
    assert len(said) == 4


def test_other_pins_make_it_anew(baseline):
    prepare("toy", lambda text: None)
    changed = Environment("toy", ("pip", "setuptools"), "import pip", torch="pip")
    assert changed.stamp != baseline.stamp
    (baseline.folder / "stamp").write_text(changed.stamp)
    said = []
    prepare("toy", said.append)
    assert said


def test_what_cannot_be_installed_is_absent_with_the_reason(baseline, monkeypatch):
    missing = Environment("toy", ("./no-such-package.whl",), "import pip", torch="pip")
    monkeypatch.setitem(environments.BASELINES, "toy", missing)
    with pytest.raises(BaselineAbsent, match="no-such-package") as caught:
        prepare("toy", lambda text: None)
    assert caught.value.name == "toy"
    assert not (missing.folder / "stamp").exists()


def test_what_installs_but_does_not_work_is_absent(baseline, monkeypatch):
    broken = Environment("toy", ("pip",), "raise SystemExit('undefined symbol')", torch="pip")
    monkeypatch.setitem(environments.BASELINES, "toy", broken)
    with pytest.raises(BaselineAbsent, match="undefined symbol"):
        prepare("toy", lambda text: None)
