"""Reduce the pages that Spark and its workers write about a failure to one line.

Note: the reason is near the end. Spark reports first that a query failed, then a stage, then a
task; what a worker raised is the last exception in the text.
"""

import re
from typing import Final

_MOST: Final = 500
# The end of a Python or Java trace, or its cause. Indented lines belong to a trace.
_NAMED: Final = re.compile(
    r"^(?:Caused by: |: )?((?:[a-zA-Z_$][\w$]*\.)+[A-Z]\w*|\w+(?:Error|Exception)): (\S.*)$",
    re.MULTILINE,
)
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
    """The reason of a failure in one line."""
    text = str(error)
    if reason := _reason_of_installation(text):
        return reason
    for found in reversed(list(_NAMED.finditer(text))):
        if not found[2].startswith(_SAYS_NOTHING):
            return found[0].removeprefix("Caused by: ").removeprefix(": ").strip()[:_MOST]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = _STREAM_FAILED.sub("", lines[0]) if lines else type(error).__name__
    return told[:_MOST]


def without_class(reason: str) -> str:
    """The reason without the class name of one of our exceptions."""
    return _OURS.sub("", reason)


def _reason_of_installation(text: str) -> str | None:
    """A worker's machine lacks Python or the package."""
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
