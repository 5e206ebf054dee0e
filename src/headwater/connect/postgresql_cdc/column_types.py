"""Convert column values from PostgreSQL's text format by the oid of their type.

| type                          | value                                            |
|-------------------------------|--------------------------------------------------|
| bool, int2, int4, int8, oid   | bool, int                                        |
| float4, float8, numeric       | float, Decimal (NaN and infinities included)     |
| bytea                         | bytes                                            |
| date                          | int, days since 1970-01-01                       |
| time                          | int, microseconds since midnight                 |
| timestamp, timestamptz        | int, microseconds since 1970-01-01, in UTC       |
| everything else               | str: text, uuid, json, arrays, enums, ranges ... |

Note: the session that produces the texts must use `DateStyle=ISO`, `TimeZone=UTC` and
`bytea_output=hex`, as `cdc_reader` does. Numbers for dates and times have room for years before
Christ and after 9999, which Python's datetime has not.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from headwater.connect.postgresql_cdc.pgoutput import MalformedPgoutput

ColumnValue = bool | int | float | Decimal | bytes | str

BOOL: Final = 16
BYTEA: Final = 17
INT8: Final = 20
INT2: Final = 21
INT4: Final = 23
TEXT: Final = 25
OID: Final = 26
JSON: Final = 114
FLOAT4: Final = 700
FLOAT8: Final = 701
DATE: Final = 1082
TIME: Final = 1083
TIMESTAMP: Final = 1114
TIMESTAMPTZ: Final = 1184
NUMERIC: Final = 1700
UUID: Final = 2950
JSONB: Final = 3802

TEMPORAL: Final = frozenset({DATE, TIME, TIMESTAMP, TIMESTAMPTZ})

# PostgreSQL stores an infinite date as the ends of int32.
DATE_INFINITY: Final = 2**31 - 1
DATE_MINUS_INFINITY: Final = -(2**31)
# Debezium and PostgreSQL's JDBC driver use these numbers for infinite timestamps.
TIMESTAMP_INFINITY: Final = 9_223_372_036_825_200_000
TIMESTAMP_MINUS_INFINITY: Final = -9_223_372_036_832_400_000

_SECOND_US: Final = 1_000_000
_DAY_US: Final = 86_400 * _SECOND_US
_DATE: Final = re.compile(r"(\d{4,})-(\d\d)-(\d\d)( BC)?", re.ASCII)
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)
_ISO_YEAR: Final = re.compile(r"([+-]?\d{4,})(?=-)", re.ASCII)
_ISO_YEAR_MAX: Final = 9999
_TIMESTAMP: Final = re.compile(
    r"(?P<date>\d{4,}-\d\d-\d\d) (?P<time>[\d:.]+)(?P<offset>[+-]\d\d(?::\d\d)*)?(?P<bc> BC)?",
    re.ASCII,
)


def typed_value(type_oid: int, text: str) -> ColumnValue:
    """Convert one value; types without a conversion stay text."""
    convert = _CONVERSIONS.get(type_oid)
    if convert is None:
        return text
    try:
        return convert(text)
    except (ValueError, ArithmeticError) as error:
        raise MalformedPgoutput(f"not a value of the type with oid {type_oid}: {text!r}") from error


def iso_timestamp(micros: int) -> str:
    """ISO 8601 text with `Z` for microseconds since the epoch, as in Debezium."""
    if micros == TIMESTAMP_INFINITY:
        return "infinity"
    if micros == TIMESTAMP_MINUS_INFINITY:
        return "-infinity"
    days, rest = divmod(micros, _DAY_US)
    year, month, day = civil_from_days(days)
    seconds, fraction = divmod(rest, _SECOND_US)
    # ISO 8601 has a year zero, and a sign before years that do not have four digits.
    years = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    text = f"{years}-{month:02}-{day:02}T"
    text += f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}Z" if fraction else f"{text}Z"


def date_text(days: int) -> str:
    """PostgreSQL's text for days since 1970-01-01."""
    if days == DATE_INFINITY:
        return "infinity"
    if days == DATE_MINUS_INFINITY:
        return "-infinity"
    year, month, day = civil_from_days(days)
    return f"{year if year > 0 else 1 - year:04}-{month:02}-{day:02}{'' if year > 0 else ' BC'}"


def time_text(micros: int) -> str:
    """PostgreSQL's text for microseconds since midnight."""
    seconds, fraction = divmod(micros, _SECOND_US)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}" if fraction else text


def timestamp_text(micros: int) -> str:
    """PostgreSQL's text for microseconds since 1970-01-01."""
    if micros == TIMESTAMP_INFINITY:
        return "infinity"
    if micros == TIMESTAMP_MINUS_INFINITY:
        return "-infinity"
    days, rest = divmod(micros, _DAY_US)
    date, _, era = date_text(days).partition(" ")
    return f"{date} {time_text(rest)}{' ' + era if era else ''}"


def timestamp_from_iso(text: str) -> str:
    """PostgreSQL's text for what `iso_timestamp` has written.

    PostgreSQL reads ISO 8601, but neither signs nor the year zero of it.
    """
    found = _ISO_YEAR.match(text)
    if found is None:
        return text
    year, rest = int(found[1]), text[found.end() :]
    if 0 < year <= _ISO_YEAR_MAX:
        return text
    return f"{year}{rest}" if year > 0 else f"{1 - year:04}{rest} BC"


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar; year 0 is 1 BC."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970-01-01."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def _bool(text: str) -> bool:
    if text not in ("t", "f"):
        raise ValueError(text)
    return text == "t"


def _bytea(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError("bytea_output must be hex")
    return bytes.fromhex(text[2:])


def _date(text: str) -> int:
    if text == "infinity":
        return DATE_INFINITY
    if text == "-infinity":
        return DATE_MINUS_INFINITY
    return _days(text)


def _days(text: str) -> int:
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    year = int(found[1])
    return days_from_civil(1 - year if found[4] else year, int(found[2]), int(found[3]))


def _time(text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    seconds = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])
    return seconds * _SECOND_US + int((found[4] or "").ljust(6, "0"))


def _timestamp(text: str) -> int:
    if text == "infinity":
        return TIMESTAMP_INFINITY
    if text == "-infinity":
        return TIMESTAMP_MINUS_INFINITY
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError(text)
    days = _days(found["date"] + (found["bc"] or ""))
    return days * _DAY_US + _time(found["time"]) - _offset_us(found["offset"] or "")


def _offset_us(text: str) -> int:
    if not text:
        return 0
    parts = [int(part) for part in text[1:].split(":")]
    seconds = sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
    return (-seconds if text[0] == "-" else seconds) * _SECOND_US


_CONVERSIONS: Final[dict[int, Callable[[str], ColumnValue]]] = {
    BOOL: _bool,
    BYTEA: _bytea,
    INT8: int,
    INT2: int,
    INT4: int,
    OID: int,
    FLOAT4: float,
    FLOAT8: float,
    NUMERIC: Decimal,
    DATE: _date,
    TIME: _time,
    TIMESTAMP: _timestamp,
    TIMESTAMPTZ: _timestamp,
}
