"""Drive Chromium over the WebDriver protocol: JSON over HTTP, without a library.

Only the few commands that these tests need are implemented.
"""

import base64
import http.client
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

DRIVERS = ("chromedriver",)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_S = 60

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_PORT = re.compile(r"successfully on port (\d+)")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--no-first-run",
)


class BrowserError(Exception):
    """A failed WebDriver command."""


def missing() -> str | None:
    """Why no browser is available; None if there is one."""
    if not any(map(shutil.which, DRIVERS)):
        return "no chromedriver; on Debian: apt-get install chromium chromium-driver"
    if not any(map(shutil.which, BROWSERS)):
        return "no chromium; on Debian: apt-get install chromium chromium-driver"
    return None


class Browser:
    """One browser window."""

    def __init__(self, port: int, session: str) -> None:
        self._port = port
        self._path = f"/session/{session}"

    def open(self, url: str) -> None:
        self._ask("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        return str(self._ask("GET", "/url"))

    @property
    def title(self) -> str:
        return str(self._ask("GET", "/title"))

    def run(self, script: str, *arguments: object) -> Any:
        """Run a script in the page and return its result."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": arguments})

    def wait_for(self, condition: str) -> None:
        """Poll until an expression is true in a loaded page."""
        script = """
            const done = arguments[arguments.length - 1];
            if (document.readyState === "complete" && (%s)) done(true);
            else setTimeout(() => done(false), 50);
        """
        body = {"script": script % condition, "args": []}
        deadline_s = monotonic() + TIMEOUT_S
        while monotonic() < deadline_s:
            try:
                if self._ask("POST", "/execute/async", body):
                    return
            except BrowserError as error:
                # The page has just been replaced by another one, sometimes without an error.
                if not any(word in str(error) for word in ("navigat", "stale", "script timeout")):
                    raise
        raise BrowserError(f"{condition} is not true of {self.url}:\n{self.text()}")

    def text(self, selector: str = "main") -> str:
        return str(self._of(selector, "GET", "/text"))

    def click(self, selector: str) -> None:
        self._of(selector, "POST", "/click", {})

    def type(self, selector: str, text: str) -> None:
        self._of(selector, "POST", "/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        self._ask("POST", "/actions", {"actions": [keyboard]})

    def narrow(self, width: int, height: int = 900) -> None:
        """Emulate a screen of this width; windows cannot be as narrow as a phone."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.command("Emulation.setDeviceMetricsOverride", screen)

    def emulate(self, name: str, value: str) -> None:
        """Emulate a media feature, such as prefers-color-scheme."""
        parameters = {"features": [{"name": name, "value": value}]}
        self.command("Emulation.setEmulatedMedia", parameters)

    def command(self, name: str, parameters: dict[str, Any]) -> Any:
        """Send a Chromium DevTools command."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def logged_errors(self) -> list[str]:
        """Errors that the browser has logged since the last call, including blocked scripts."""
        found = self._ask("POST", "/se/log", {"type": "browser"})
        return [each["message"] for each in found if each["level"] in ("SEVERE", "WARNING")]

    def requested_urls(self) -> list[str]:
        """The URLs that pages have requested since the last call, including failed requests."""
        events = self._ask("POST", "/se/log", {"type": "performance"})
        messages = [json.loads(each["message"])["message"] for each in events]
        return [
            each["params"]["request"]["url"]
            for each in messages
            if each["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))

    def _of(self, selector: str, method: str, path: str, body: Any = None) -> Any:
        found = self._ask("POST", "/element", {"using": "css selector", "value": selector})
        return self._ask(method, f"/element/{found[_ELEMENT]}{path}", body)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        return ask(self._port, method, self._path + path, body)


def ask(port: int, method: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2 * TIMEOUT_S)
    try:
        raw = None if body is None else json.dumps(body)
        connection.request(method, path, raw, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())["value"]
    finally:
        connection.close()
    if isinstance(answer, dict) and "error" in answer:
        raise BrowserError(f"{answer['error']}: {answer['message']}")
    return answer


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a fresh profile, closed at the end."""
    program = next(filter(None, map(shutil.which, DRIVERS)))
    binary = next(filter(None, map(shutil.which, BROWSERS)))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        driver = subprocess.Popen(
            [program, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert driver.stdout is not None
            port = next(int(found[1]) for line in driver.stdout if (found := _PORT.search(line)))
            options = {"binary": binary, "args": [*_FLAGS, f"--user-data-dir={profile}"]}
            capabilities = {
                "browserName": "chrome",
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
                "timeouts": {"script": TIMEOUT_S * 1000},
            }
            made = ask(port, "POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
            session = made["sessionId"]
            try:
                yield Browser(port, session)
            finally:
                ask(port, "DELETE", f"/session/{session}")
        finally:
            driver.terminate()
            driver.wait()
            if driver.stdout is not None:
                driver.stdout.close()
