"""The documentation site builds without warnings, and its generated pages are up to date."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 240
GENERATOR = ROOT / "docs" / "reference" / "generate.py"
# Links to other sites are allowed; scripts, images and styles must come from the site itself.
LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]+")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout
    return folder


def test_site_builds_strictly_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    foreign = {found for page in pages for found in LOADED.findall(page.read_text("utf-8"))}
    assert foreign == set()


def test_llms_txt_names_every_page_of_the_navigation_and_every_link_exists(site: Path) -> None:
    text = (site / "llms.txt").read_text("utf-8")
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", text, re.MULTILINE)
    assert len(links) > 30
    assert [each for each in links if not (site / each).is_file()] == []
    built = {str(each.relative_to(site)) for each in site.rglob("*.html")}
    left_out = {each for each in built - set(links) if not each.startswith("decisions/0")}
    assert left_out == {"404.html"}


@pytest.mark.parametrize("name", ["cli.md", "python-api.md", "metrics.md", "../llms.txt"])
def test_generated_reference_page_is_up_to_date(name: str) -> None:
    page = runpy.run_path(str(GENERATOR))["PAGES"][name]
    assert (GENERATOR.parent / name).read_text("utf-8") == page(), "run `make docs`"
