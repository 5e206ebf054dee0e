"""Pages of long lists."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

PAGE_SIZE: Final = 50
PAGE_SIZE_MAX: Final = 200

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """Some rows of a list; page numbers start at 1."""

    rows: tuple[T, ...]
    page: int
    size: int
    total: int

    @property
    def last(self) -> int:
        return max(-(-self.total // self.size), 1)

    @property
    def first_row(self) -> int:
        return (self.page - 1) * self.size + 1 if self.rows else 0

    @property
    def last_row(self) -> int:
        return max(self.first_row + len(self.rows) - 1, 0)


def page_of(rows: Sequence[T], *, page: int, size: int) -> Page[T]:
    """One page; the last one if `page` is too large."""
    size = min(max(size, 1), PAGE_SIZE_MAX)
    last = max(-(-len(rows) // size), 1)
    page = min(max(page, 1), last)
    first = (page - 1) * size
    return Page(rows=tuple(rows[first : first + size]), page=page, size=size, total=len(rows))
