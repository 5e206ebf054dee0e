"""Read options as Spark passes them: strings under names in lower case.

Names are compared in lower case. Messages spell them as the documentation does, so that a user
finds `maxOffsetsPerTrigger` there.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from headwater.spark.exceptions import InvalidOption
from headwater.spark.settings_files import SETTINGS_FILE, settings_in, with_certificates

T = TypeVar("T")

CLIENT_PREFIX: Final = "kafka."

# Spark's own, which it passes to sources and sinks alike.
_SPARKS: Final = frozenset({"checkpointlocation", "queryname", "path"})
_LONG_MAX: Final = 2**63 - 1
_TIME: Final = re.compile(r"\s*(\d+)\s*(us|ms|s|m|min|h|d|)\s*", re.ASCII)
_UNITS_MS: Final = {
    "us": 0.001,
    "": 1,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class SparkOptions:
    """The options of a source or sink. `InvalidOption` has the reason in one line."""

    def __init__(self, given: Mapping[str, str], whose: str, names: Sequence[str]) -> None:
        """`names` are all known options in their documented spelling."""
        self._values = {name.lower(): value for name, value in given.items()}
        self._refuse_unknown(whose, {name.lower(): name for name in (*names, SETTINGS_FILE)})
        file = self.get(SETTINGS_FILE)
        self.shared: Mapping[str, str] = settings_in(file) if file else {}
        """The settings of the file, for all kinds of clients."""

    def get(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        return None if value is None else value.strip()

    def client(
        self, not_to_be_set: Mapping[str, str], of_file: Mapping[str, str]
    ) -> dict[str, str]:
        """The client's settings without their prefix; options win over the file."""
        settings = {
            name.removeprefix(CLIENT_PREFIX): value
            for name, value in self._values.items()
            if name.startswith(CLIENT_PREFIX)
        }
        for name, reason in not_to_be_set.items():
            if name in settings:
                raise InvalidOption(f"{CLIENT_PREFIX}{name} cannot be set: {reason}")
        allowed = {name: value for name, value in of_file.items() if name not in not_to_be_set}
        settings = {**allowed, **settings}
        if not settings.get("bootstrap.servers", "").strip():
            raise InvalidOption("kafka.bootstrap.servers is missing")
        return with_certificates(settings)

    def number(self, name: str, low: int) -> int | None:
        text = self.get(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            raise InvalidOption(f"{name} must be a whole number, not {text}") from None
        if not low <= value <= _LONG_MAX:
            raise InvalidOption(f"{name} must be at least {low}, not {text}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        return self.choice(name, {"true": True, "false": False}, str(default).lower())

    def choice(self, name: str, choices: Mapping[str, T], default: str) -> T:
        text = (self.get(name) or default).lower()
        if text not in choices:
            raise InvalidOption(f"{name} must be one of {', '.join(choices)}, not {text}")
        return choices[text]

    def duration_ms(self, name: str, default: str) -> int:
        text = self.get(name) or default
        found = _TIME.fullmatch(text.lower())
        if found is None:
            raise InvalidOption(f"{name} must be a time such as 30s or 15m, not {text}")
        return int(int(found[1]) * _UNITS_MS[found[2]])

    def _refuse_unknown(self, whose: str, known: Mapping[str, str]) -> None:
        for name in self._values:
            if name.startswith(CLIENT_PREFIX) or name in known or name in _SPARKS:
                continue
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {known[near[0]]}?" if near else ""
            raise InvalidOption(f"the {whose} has no option {name}{hint}")
