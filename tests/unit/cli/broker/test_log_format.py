"""Formats of the broker's log: text and JSON lines."""

import json
import logging
import sys
import threading

import pytest

from headwater.cli.broker.log_format import JsonLines, TextLines, log_to_standard_error


def record(message: str, *, failure: BaseException | None = None) -> logging.LogRecord:
    made = logging.LogRecord(
        name="headwater.network.socket_server",
        level=logging.WARNING,
        pathname="",
        lineno=1,
        msg=message,
        args=(),
        exc_info=None if failure is None else (type(failure), failure, failure.__traceback__),
    )
    made.created = 1_700_000_000.25
    made.msecs = 250.0
    return made


def test_a_text_line_has_time_level_logger_and_message() -> None:
    line = TextLines().format(record("all is well"))
    assert line.endswith(".250 WARNING network.socket_server: all is well")


def test_a_json_line_is_one_object() -> None:
    assert json.loads(JsonLines().format(record("all is well"))) == {
        "ts": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "network.socket_server",
        "message": "all is well",
    }


def test_text_from_clients_cannot_forge_log_lines_or_terminal_escapes() -> None:
    forged = "client 'x\n2023 ERROR broker: lost\x1b[2J'"
    assert "\n" not in TextLines().format(record(forged))
    assert "\x1b" not in TextLines().format(record(forged))
    assert "\n" not in JsonLines().format(record(forged))
    assert json.loads(JsonLines().format(record(forged)))["message"] == forged


def test_an_exception_is_logged_with_its_traceback() -> None:
    try:
        int("x\n")
    except ValueError as error:
        failure = error
    first, *trace = TextLines().format(record("it failed", failure=failure)).split("\n")
    assert first.endswith("it failed")
    assert all(line.startswith("    ") for line in trace)
    assert "ValueError" in trace[-1]
    shown = json.loads(JsonLines().format(record("it failed", failure=failure)))
    assert shown["exception"].startswith("Traceback")


def test_entries_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_standard_error(log_format="text", level="warning")
    logging.getLogger("headwater.x").info("small")
    logging.getLogger("headwater.x").warning("great")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("WARNING x: great")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_exception_that_ends_a_thread_is_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_standard_error(log_format="json", level="info")
    thread = threading.Thread(target=lambda: int("x"), name="worker-1")
    thread.start()
    thread.join()
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "worker-1 ended with an exception"


def test_a_closed_standard_error_does_not_stop_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def write(self, _text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    log_to_standard_error(log_format="text", level="info")
    logging.getLogger("headwater.x").warning("hello")
