"""A secret text: what no log, no repr and no answer shows.

What a reader would get wrong: `str` of it is no way to the text either, so that a message which
formats all settings gives nothing away. Whoever really needs it says `reveal`.
"""

from typing import Final, final

HIDDEN: Final = "[hidden]"


@final
class Password:
    """Equal to another one with the same text."""

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
