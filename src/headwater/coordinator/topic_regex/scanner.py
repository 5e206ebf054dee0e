"""Read position in the text of a regular expression."""

from headwater.common.exceptions import InvalidPattern


class Scanner:
    """A text and a position in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.position = 0

    @property
    def at_end(self) -> bool:
        return self.position >= len(self._text)

    def peek(self) -> str:
        return self._text[self.position]

    def is_next(self, text: str) -> bool:
        return self._text.startswith(text, self.position)

    def has_ahead(self, text: str) -> bool:
        return text in self._text[self.position :]

    def take(self) -> str:
        if self.at_end:
            raise InvalidPattern("unexpected end")
        character = self._text[self.position]
        self.position += 1
        return character

    def skip(self, text: str) -> bool:
        """Skip this text if it comes next; return whether it did."""
        if not self.is_next(text):
            return False
        self.position += len(text)
        return True

    def until(self, end: str, *, or_end: bool = False) -> str:
        """Return the text before `end` and skip both."""
        found = self._text.find(end, self.position)
        if found < 0:
            if not or_end:
                raise InvalidPattern(f"missing {end}")
            found = len(self._text)
        text = self._text[self.position : found]
        self.position = min(found + len(end), len(self._text))
        return text

    def counted_repeat(self) -> tuple[int, int | None] | None:
        """Parse `{2}`, `{2,}` or `{2,5}`. Other text in braces is literal."""
        if not self.is_next("{"):
            return None
        closing = self._text.find("}", self.position)
        if closing < 0:
            return None
        least, comma, most = self._text[self.position + 1 : closing].partition(",")
        if not _is_number(least) or not (_is_number(most) or not most):
            return None
        self.position = closing + 1
        if not comma:
            return int(least), int(least)
        return int(least), int(most) if most else None


def _is_number(text: str) -> bool:
    # Longer numbers are too large anyway, and `int` is slow for very long ones.
    return 0 < len(text) < 10 and text.isascii() and text.isdigit()
