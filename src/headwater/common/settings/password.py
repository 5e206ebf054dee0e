"""Password: a secret text that logs, repr and responses do not show.

Note: `str` does not return the text either, so that a message that formats all settings reveals
nothing. Use `reveal`.
"""

from typing import Final, final

HIDDEN: Final = "[hidden]"


@final
class Password:
    """Secret text; equal to another one with the same text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__
