"""Answers of tools as JSON of bounded size. Pure.

Note: rows are left out from the end of the longest list, so that what remains is whole rows, and
the answer says what is missing. Characters that are not printable are escaped: text in records
could otherwise hide something from the person who reads along.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

ROWS_MAX: Final = 100
BYTES_MAX: Final = 50_000
SECONDS_MAX: Final = 20.0
TRUNCATED: Final = "truncated"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLimits:
    """Limits of one answer: rows in a list, bytes of JSON, seconds until it is there."""

    rows: int = ROWS_MAX
    bytes: int = BYTES_MAX
    seconds: float = SECONDS_MAX


def answer_text(answer: Mapping[str, Any], limits: AnswerLimits) -> str:
    """Return the answer as JSON; rows that do not fit are left out, and counted."""
    text = _json(answer)
    if len(text.encode()) <= limits.bytes:
        return text
    lists = {name: each for name, each in answer.items() if isinstance(each, list) and each}
    if not lists:
        return _cut_text(text, limits)
    name = max(lists, key=lambda each: len(_json(lists[each])))
    rows = lists[name]
    kept = _most_rows(answer, name, rows, limits.bytes)
    if kept is None:
        return _cut_text(text, limits)
    return _json(_shortened(answer, name, rows, kept))


def _most_rows(answer: Mapping[str, Any], name: str, rows: list[Any], bytes_max: int) -> int | None:
    """Bisect the number of rows that fit; None if the answer does not fit without any."""
    low, high = 0, len(rows) - 1
    if len(_json(_shortened(answer, name, rows, 0)).encode()) > bytes_max:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if len(_json(_shortened(answer, name, rows, middle)).encode()) <= bytes_max:
            low = middle
        else:
            high = middle - 1
    return low


def _shortened(answer: Mapping[str, Any], name: str, rows: list[Any], kept: int) -> dict[str, Any]:
    note = (
        f"{len(rows) - kept} of {len(rows)} {name} were left out: the answer has a limit of bytes. "
        "Ask for fewer rows or a narrower range."
    )
    return {**answer, name: rows[:kept], TRUNCATED: note}


def _cut_text(text: str, limits: AnswerLimits) -> str:
    note = f"The answer has {len(text.encode())} bytes; the limit is {limits.bytes}."
    shown = text.encode()[: limits.bytes // 2].decode(errors="ignore")
    return _json({TRUNCATED: note, "beginning": shown})


def _json(value: Any) -> str:
    return printable_text(
        json.dumps(value, ensure_ascii=False, default=_plain, separators=(",", ":"))
    )


def printable_text(text: str) -> str:
    """Escape characters that are not printable, as JSON does."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def _plain(value: object) -> object:
    """Values of records and queries that JSON does not have."""
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(value).decode()}
        case datetime() | date():
            return value.isoformat()
        case _:
            return str(value)
