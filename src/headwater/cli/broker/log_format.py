"""Format the broker's log on standard error as text or JSON lines.

Note: messages may contain text from clients, such as a client id. Non-printable characters are
escaped so that they can neither control a terminal nor forge log lines. Each entry is one line,
except that a traceback follows in indented lines.
"""

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from typing import TextIO

_PACKAGE = "headwater."


class TextLines(logging.Formatter):
    """Local time, level, logger name, message."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).astimezone()
        line = (
            f"{moment:%Y-%m-%d %H:%M:%S}.{int(record.msecs):03} {record.levelname:<7} "
            f"{short_name(record)}: {_printable(record.getMessage())}"
        )
        trace = _trace(self, record)
        if trace is None:
            return line
        return "\n    ".join([line, *map(_printable, trace.splitlines())])


class JsonLines(logging.Formatter):
    """One JSON object per line: ts (UTC), level, logger, message, exception if any."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        entry = {
            "ts": f"{moment:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": short_name(record),
            "message": record.getMessage(),
        }
        trace = _trace(self, record)
        if trace is not None:
            entry["exception"] = trace
        return json.dumps(entry)


class _StandardError(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, logging's name for it
        """Ignore a closed standard error: the broker keeps running without a log."""


FORMATS: dict[str, type[logging.Formatter]] = {"text": TextLines, "json": JsonLines}
LEVELS = ("debug", "info", "warning", "error")


def log_to_standard_error(*, log_format: str, level: str) -> None:
    """Send all logging of this process to standard error in the given format."""
    handler = _StandardError(sys.stderr)
    handler.setFormatter(FORMATS[log_format]())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    threading.excepthook = _log_end_of_thread


def short_name(record: logging.LogRecord) -> str:
    return record.name.removeprefix(_PACKAGE)


def _log_end_of_thread(end: threading.ExceptHookArgs) -> None:
    name = end.thread.name if end.thread else "a thread"
    error = end.exc_value or end.exc_type()
    logging.getLogger(__name__).error("%s ended with an exception", name, exc_info=error)


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    if record.exc_info and record.exc_info[0] is not None:
        return formatter.formatException(record.exc_info)
    return record.exc_text or None


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
