"""How a broker's log looks: lines for people, JSON for machines, on standard error.

What a reader would get wrong: messages quote what strangers sent, such as a client's id, and both
a terminal and whoever splits the file into lines would obey it. So whatever is not printable is
written as an escape, and an entry is one line. Only the trace of an exception, which people read
in lines, follows in further ones, indented.
"""

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from typing import TextIO

_PACKAGE = "headwater."


class TextLines(logging.Formatter):
    """Local time, level, who says it, what."""

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
    """One object a line: ts (UTC), level, logger, message, and exception if there was one."""

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
        """Nobody reads the log any more; the broker goes on, and there is no one left to tell."""


FORMATS: dict[str, type[logging.Formatter]] = {"text": TextLines, "json": JsonLines}
LEVELS = ("debug", "info", "warning", "error")


def log_to_standard_error(*, log_format: str, level: str) -> None:
    """From now on everything that is logged in this process goes there, in this form."""
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
