"""Takes pages of the repository's root into the site, whose root is ``docs/``."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
TAKEN_IN = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "LICENSE": "LICENSE",
}
"""Files of the root, and what they are called in the site."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files of the root."""
    for source, name in TAKEN_IN.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links between the root and ``docs/`` lose that step, and those to code are no links here."""
    if page.file.src_uri in TAKEN_IN.values():
        known = "|".join(map(re.escape, ("docs/", "#", "http", *TAKEN_IN)))
        found = re.sub(rf"\[([^\]]*)\]\((?!{known})[^)]*\)", r"\1", markdown)
        return re.sub(r'(\]\(|src=")docs/', r"\1", found)
    up = "../" * page.file.src_uri.count("/")
    return re.sub(r"\]\((?:\.\./)+(?=CONTRIBUTING\.md|CHANGELOG\.md)", f"]({up}", markdown)
