"""Pages lead somewhere, their code can be read, and those about the architecture are short."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers import ROOT

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
FLOORS = ("artos", "head", "workers", "triggers", "deploy", "evaluation")
ARCHITECTURE = ROOT / "docs" / "architecture"
MOST_WORDS = 1_500


def tracked(*patterns: str) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return sorted(name for name in listed.stdout.split("\0") if (ROOT / name).is_file())


PAGES = tracked("*.md")


def anchors(page: Path) -> set[str]:
    """What the headings of a page can be linked by, as GitHub and the site name them."""
    found = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.M)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", each).lower() for each in found]
    return {re.sub(r"[^\w\- ]", "", each).strip().replace(" ", "-") for each in plain}


def broken(page: Path) -> Iterator[str]:
    """Links of a page within the repository that lead to no file, or to no heading of it."""
    for match in LINK.finditer(FENCED.sub("", page.read_text())):
        link = match[1] or match[2]
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_file_and_a_heading(page: str) -> None:
    assert list(broken(ROOT / page)) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page's title\n[a](#a-pages-title) [b](#b) [c](gone.md) [d](page.md#d)\n"
        "[e](https://example.org/e)\n```\n[f](gone)\n```\n"
    )
    assert list(broken(page)) == ["#b", "gone.md", "page.md#d"]


def json_lines(text: str) -> None:
    for line in text.splitlines():
        json.loads(line)


READERS: dict[str, Callable[[str], object]] = {
    "python": ast.parse,
    "toml": tomllib.loads,
    "json": json_lines,
}


@pytest.mark.parametrize("page", PAGES)
def test_code_of_a_known_language_can_be_read(page: str) -> None:
    for language, text in FENCED.findall((ROOT / page).read_text()):
        if language in READERS:
            READERS[language](text)


# -- architecture ------------------------------------------------------------------------------


@pytest.mark.parametrize("page", sorted(ARCHITECTURE.glob("*.md")), ids=lambda path: path.stem)
def test_a_page_about_the_architecture_is_short(page: Path) -> None:
    assert len(page.read_text().split()) <= MOST_WORDS


def test_every_second_folder_has_its_place_on_a_page() -> None:
    """A folder of the upper floors is a process or a thing of one: a page says which."""
    text = "\n".join(page.read_text() for page in ARCHITECTURE.glob("*.md"))
    sources = [Path(name) for name in tracked("*.py") if name.startswith(FLOORS)]
    folders = {str(Path(*path.parts[:2])) for path in sources if len(path.parts) > 2}
    assert [name for name in sorted(folders) if f"{name}/" not in text] == []


def test_every_page_about_the_architecture_is_in_its_table() -> None:
    table = (ARCHITECTURE / "README.md").read_text()
    pages = {page.name for page in ARCHITECTURE.glob("*.md")} - {"README.md"}
    assert [name for name in sorted(pages) if f"]({name})" not in table] == []


def test_every_how_to_is_in_its_table() -> None:
    folder = ROOT / "docs" / "how-to"
    table = (folder / "README.md").read_text()
    pages = {page.name for page in folder.glob("*.md")} - {"README.md"}
    assert [name for name in sorted(pages) if f"]({name})" not in table] == []


def test_the_site_leads_to_every_page() -> None:
    """``make docs`` fails otherwise; it needs packages that these tests do without."""
    nav = (ROOT / "docs" / "web" / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    pages = [name.removeprefix("docs/") for name in PAGES if name.startswith("docs/")]
    assert [name for name in pages if f" {name}\n" not in nav] == []
