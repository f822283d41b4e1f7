"""``import artos`` is cheap, and every public name is there."""

import subprocess
import sys

import pytest
from helpers import ROOT

import artos


@pytest.mark.parametrize("name", artos.__all__)
def test_public_name_is_what_it_says(name: str) -> None:
    assert getattr(artos, name).__name__ == name


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Workloads'"):
        artos.Workloads  # noqa: B018


def test_dir_lists_the_public_names() -> None:
    assert set(artos.__all__) <= set(dir(artos))


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import artos", ["numpy", "torch", "msgspec"]),
        ("from artos import Batch, UniformSampler", ["torch", "gymnasium"]),
    ],
)
def test_only_what_is_used_is_imported(statement: str, unwanted: list[str]) -> None:
    program = f"import sys; {statement}; print([n for n in {unwanted} if n in sys.modules])"
    shown = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"
