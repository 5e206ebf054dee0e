"""Why a query failed, in one line, out of the pages that Spark and its workers write.

What a reader would get wrong: the reason is near the end. Spark tells first that a query failed,
then that a stage did, then a task; what a worker raised is the last exception that is named.
"""

import re
from typing import Final

_MOST: Final = 500
# As Python and Java end a trace or go on with its cause; what is indented belongs to a trace.
_NAMED: Final = re.compile(
    r"^(?:Caused by: )?((?:[a-zA-Z_$][\w$]*\.)+[A-Z]\w*|\w+(?:Error|Exception)): (\S.*)$",
    re.MULTILINE,
)
_STREAM_FAILED: Final = re.compile(r"^\[STREAM_FAILED\].*?terminated with exception: ")
_OURS: Final = re.compile(r"^headwater\.[\w.]+: ")
_SAYS_NOTHING: Final = ("An error occurred while calling", "Traceback (most recent call last)")


def reason_of(error: Exception) -> str:
    """One line for people."""
    text = str(error)
    for found in reversed(list(_NAMED.finditer(text))):
        if not found[2].startswith(_SAYS_NOTHING):
            return found[0].removeprefix("Caused by: ").strip()[:_MOST]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = _STREAM_FAILED.sub("", lines[0]) if lines else type(error).__name__
    return told[:_MOST]


def without_class(reason: str) -> str:
    """What people want to know of one of our own failures, which say all in their text."""
    return _OURS.sub("", reason)
