"""Options of a connector: texts under names, of which none may be unknown."""

import difflib
from collections.abc import Mapping, Sequence

from headwater.pipeline.failures import OptionRefused


class ConnectorOptions:
    """Reads values; whatever is wrong is an `OptionRefused` of one line."""

    def __init__(self, given: Mapping[str, str], names: Sequence[str]) -> None:
        # Spark knows no capitals in options.
        known = {name.lower(): name for name in names}
        self.given = {known.get(name.lower(), name): value for name, value in given.items()}
        for name in self.given:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise OptionRefused(f"the connector has no option {name}{hint}")

    def get(self, name: str) -> str | None:
        return self.given.get(name) or None

    def required(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise OptionRefused(f"the option {name} is missing")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        """Names, parted by commas."""
        text = self.get(name) or ""
        return tuple(each.strip() for each in text.split(",") if each.strip())

    def number(self, name: str, default: int) -> int:
        text = self.get(name)
        if text is None:
            return default
        if not text.isdecimal() or int(text) < 1:
            raise OptionRefused(f"{name} must be a whole number above 0, not {text}")
        return int(text)

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of these; the first if nothing is said."""
        text = self.get(name) or choices[0]
        if text not in choices:
            raise OptionRefused(f"{name} must be one of {', '.join(choices)}, not {text}")
        return text
