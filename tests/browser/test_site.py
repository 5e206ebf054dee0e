"""The documentation site works offline: no page requests anything from another server."""

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.browser.chromium import browser, missing

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

ROOT = Path(__file__).parents[2]


def foreign(requested: list[str], url: str) -> set[str]:
    """Requests that leave the site. The browser's own pages are not the site's."""
    own = (url, "data:", "blob:", "chrome:", "chrome-untrusted:", "chrome-extension:")
    return {each for each in requested if not each.startswith(own)}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The built site, served on a free port: its URL and its folder."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    handler = partial(_QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", folder
        server.shutdown()
        thread.join()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def test_no_page_requests_anything_from_another_server(site: tuple[str, Path]) -> None:
    url, folder = site
    pages = [path.relative_to(folder) for path in sorted(folder.rglob("*.html"))]
    with browser() as window:
        for page in pages:
            window.open(f"{url}/{page}")
            window.wait_for("document.querySelector('article') !== null")
        requested = window.requested_urls()
    assert len([each for each in requested if each.endswith(".html")]) >= len(pages) > 20
    assert foreign(requested, url) == set()


def test_search_finds_a_setting_without_a_connection(site: tuple[str, Path]) -> None:
    url, _ = site
    with browser() as window:
        window.open(f"{url}/index.html")
        window.wait_for("document.querySelector('.md-search__input') !== null")
        window.run("document.querySelector('.md-search__input').focus()")
        window.type(".md-search__input", "min.insync.replicas")
        window.wait_for("document.querySelectorAll('.md-search-result__link').length > 0")
        requested = window.requested_urls()
    assert foreign(requested, url) == set()
