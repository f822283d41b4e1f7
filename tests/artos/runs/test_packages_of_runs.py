"""What is seen to when a run's packages have been installed, by whatever installs them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from artos.errors import Refused
from artos.runs import packages
from artos.system.locks import FileLock
from artos.version import VERSION


@pytest.mark.parametrize(
    ("version", "needs", "said"),
    [
        ("0.0.1", "artos<1", r"bring ARTOS 0\.0\.1, which .* needed by: mine \(artos<1\)$"),
        ("0.0.1", "artos-tools", r"needed by: none of them$"),
        (VERSION, "artos", ""),
    ],
)
def test_packages_that_bring_another_artos_are_refused_and_named(
    version: str, needs: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "environment"
    site = folder / "lib" / "python3.11" / "site-packages"

    def install(words: Sequence[str], lock: FileLock) -> None:
        for name, number, more in (
            ("artos", version, ""),
            ("mine", "2", f"Requires-Dist: {needs}"),
        ):
            about = site / f"{name}-{number}.dist-info" / "METADATA"
            about.parent.mkdir(parents=True, exist_ok=True)
            about.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n{more}\n")

    monkeypatch.setattr(packages, "_run", install)
    lock = FileLock.take(tmp_path / "lock")
    assert lock is not None
    with lock:
        if not said:
            packages._make(folder, b"mine\n", [], lock)
            hooks = [each for each in sys.meta_path if not isinstance(each, type)]
            assert not any("spec_for_distutils" in vars(each) for each in hooks), (
                "setuptools takes this process for pip's, and torch cannot compile in it any more"
            )
            return
        for _ in ("installed", "not tried again"):
            with pytest.raises(Refused, match=said):
                packages._make(folder, b"mine\n", [], lock)
            monkeypatch.setattr(packages, "_run", None)
