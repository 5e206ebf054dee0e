"""Reduce the messages of Spark and its workers about a failure to one line.

Note: the reason is near the end. Spark reports first that a query failed, then a stage, then a
task; what a worker raised is the last exception in the text. PySpark keeps Java's causes out of
the text, as a chain of exceptions.
"""

import re
import traceback
from typing import Final

_MOST: Final = 500
# The end of a Python or Java trace, or its cause. Indented lines belong to a trace.
_NAMED: Final = re.compile(
    r"^(?:Caused by: |: )?((?:[a-zA-Z_$][\w$]*\.)+[A-Z]\w*|\w+(?:Error|Exception)): (\S.*)$",
    re.MULTILINE,
)
_CAUSED: Final = re.compile(r"^Caused by: (\S.*)$", re.MULTILINE)
# A trace begins with its exception, unless only its frames were kept.
_FIRST: Final = re.compile(r"((?:[a-zA-Z_$][\w$]*\.)+[A-Z][\w$]*(?:: .*)?)$", re.MULTILINE)
_STREAM_FAILED: Final = re.compile(r"^\[STREAM_FAILED\].*?terminated with exception: ")
_OURS: Final = re.compile(r"^headwater\.[\w.]+: ")
_SAYS_NOTHING: Final = ("An error occurred while calling", "Traceback (most recent call last)")

_GUIDE: Final = "see the guide Running on a cluster"
# What the executor's Python has printed is in the executor's log only.
_NO_PACKAGE: Final = re.compile(
    r"No module named '(?:headwater(?:\.spark\.\w+)?)'"
    r"|reading the port number from headwater\.spark\.python_daemon's stdout"
)
_NO_PYTHON: Final = re.compile(r'Cannot run program "([^"]+)"')


def reason_of(error: Exception) -> str:
    """Return the reason of a failure in one line."""
    text = str(error)
    if reason := _reason_of_installation(text):
        return reason
    for found in reversed(list(_NAMED.finditer(text))):
        if not found[2].startswith(_SAYS_NOTHING):
            return found[0].removeprefix("Caused by: ").removeprefix(": ").strip()[:_MOST]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = _STREAM_FAILED.sub("", lines[0]) if lines else type(error).__name__
    cause = _java_cause(error)
    if cause is not None and not _mentions(message, cause):
        # The cause is more useful than the end of a long message.
        return f"{message[: max(_MOST - len(cause) - 12, _MOST // 3)]}; caused by {cause}"[:_MOST]
    return message[:_MOST]


def whole_trace(error: BaseException) -> str:
    """Return Python's traceback, and Java's stack trace with its causes."""
    texts = ["".join(traceback.format_exception(error))]
    if trace := getattr(_root(error), "_stackTrace", None):
        texts.append(f"Java's stack trace of the cause:\n{trace}")
    return "\n".join(texts)


def _root(error: BaseException) -> BaseException:
    """Return the innermost Java exception that PySpark has translated."""
    while isinstance(inner := getattr(error, "_cause", None), BaseException):
        error = inner
    return error


def _java_cause(error: BaseException) -> str | None:
    """Return class and message of the Java exception that is the root cause."""
    trace = getattr(_root(error), "_stackTrace", None)
    if not isinstance(trace, str):
        return None
    causes = list(_CAUSED.finditer(trace))
    found = causes[-1] if causes else _FIRST.match(trace)
    return None if found is None else found[1].strip()


def _mentions(message: str, cause: str) -> bool:
    name, _, reason = cause.partition(": ")
    return " ".join(reason.split()) in " ".join(message.split()) if reason else name in message


def without_class(reason: str) -> str:
    """Remove the class name of one of Headwater's exceptions."""
    return _OURS.sub("", reason)


def _reason_of_installation(text: str) -> str | None:
    """Return a reason if Python or the package is missing on an executor."""
    if found := _NO_PYTHON.search(text):
        return (
            f"an executor has no Python at {found[1]}: install it there, ship an environment with "
            f"headwater pipeline package, or set spark.pyspark.python; {_GUIDE}"
        )
    if _NO_PACKAGE.search(text):
        return (
            "the Python of an executor has no package headwater: install it there, or ship an "
            f"environment with headwater pipeline package; {_GUIDE}"
        )
    return None
