"""Read the fields of a JSON object, and reject wrong types.

v2 rejects an invalid body with status 422, v3 with 400.
"""

from collections.abc import Iterator
from typing import Any, Final

from headwater.rest.rest_errors import RestProxyError

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class BodyFields:
    """The fields of one JSON object; null is the same as a missing field."""

    def __init__(self, given: Any, *, status: int, name: str = "The request body") -> None:
        self._status = status
        if not isinstance(given, dict):
            raise self._invalid(f"{name} must be a JSON object")
        self._given = given

    def value(self, name: str) -> Any:
        return self._given.get(name)

    def text(self, name: str) -> str:
        found = self.optional_text(name)
        if found is None:
            raise self._invalid(f"{name} may not be null")
        return found

    def optional_text(self, name: str) -> str | None:
        found = self._given.get(name)
        if found is not None and not isinstance(found, str):
            raise self._invalid(f"{name} must be a string")
        return found

    def flag(self, name: str) -> bool:
        found = self._given.get(name)
        if found is not None and not isinstance(found, bool):
            raise self._invalid(f"{name} must be true or false")
        return bool(found)

    def number(self, name: str, *, least: int = 0, most: int = INT_MAX) -> int:
        found = self.optional_number(name, least=least, most=most)
        if found is None:
            raise self._invalid(f"{name} may not be null")
        return found

    def optional_number(self, name: str, *, least: int = 0, most: int = INT_MAX) -> int | None:
        found = self._given.get(name)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int):
            raise self._invalid(f"{name} must be an integer")
        if not least <= found <= most:
            raise self._invalid(f"{name} must be from {least} to {most}")
        return found

    def items(self, name: str) -> list[Any]:
        """The values of an array that is not empty."""
        found = self.optional_items(name)
        if not found:
            raise self._invalid(f"{name} may not be empty")
        return found

    def optional_items(self, name: str) -> list[Any]:
        found = self._given.get(name)
        if found is None:
            return []
        if not isinstance(found, list):
            raise self._invalid(f"{name} must be an array")
        return found

    def objects(self, name: str) -> Iterator["BodyFields"]:
        """The objects of an array that is not empty."""
        for each in self.items(name):
            yield BodyFields(each, status=self._status, name=f"Each of {name}")

    def optional_objects(self, name: str) -> Iterator["BodyFields"]:
        for each in self.optional_items(name):
            yield BodyFields(each, status=self._status, name=f"Each of {name}")

    def optional_object(self, name: str) -> "BodyFields | None":
        found = self._given.get(name)
        return None if found is None else BodyFields(found, status=self._status, name=name)

    def texts(self, name: str) -> list[str]:
        """The strings of an array that is not empty."""
        found = self.items(name)
        if not all(isinstance(each, str) for each in found):
            raise self._invalid(f"{name} must be an array of strings")
        return found

    def names(self) -> list[str]:
        return list(self._given)

    def _invalid(self, message: str) -> RestProxyError:
        return RestProxyError(self._status, message)
