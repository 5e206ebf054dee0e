"""Output of the demo: a live table in a terminal, plain lines elsewhere."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo.shop import TEAS, WINDOW_S, Cell, Revenue

_WINDOWS_SHOWN: Final = 10
# Width of the bars, if there is space and if not.
_WIDEST_BAR: Final = 24
_NARROWEST_BAR: Final = 4
_AROUND_BARS: Final = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Progress of the demo."""

    orders: int
    payments: int
    batches: int
    expected: int
    rows: Sequence[tuple[Cell, Revenue]]
    news: str = ""


@dataclass(slots=True)
class Screen(AbstractContextManager["Screen"]):
    """Live output; a context manager."""

    console: Console
    _live: Live | None = None
    _told: str = field(default="")

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, moment: Moment) -> None:
        if self._live is not None:
            self._live.update(table(moment, self.console.width))
            return
        line = summary(moment)
        if line != self._told:
            self._told = line
            self.console.print(f"   {line}", highlight=False, soft_wrap=True)


def summary(moment: Moment) -> str:
    revenue = sum(each.cents for _, each in moment.rows) / 100
    line = (
        f"{moment.orders:,} orders, {moment.payments:,} payments, {moment.batches} batches, "
        f"{len(moment.rows)} of {moment.expected} results, revenue {revenue:,.2f}"
    )
    return f"{line}; {moment.news}" if moment.news else line


def table(moment: Moment, width: int) -> RenderableType:
    """Render the newest windows in whole coins, with a bar for each."""
    bar = max(min(width - _AROUND_BARS, _WIDEST_BAR), _NARROWEST_BAR)
    windows: dict[int, dict[str, int]] = defaultdict(dict)
    for cell, revenue in moment.rows:
        windows[cell.window_s][cell.tea] = revenue.cents
    highest = max((sum(each.values()) for each in windows.values()), default=1)
    shown = Table(title="Revenue, exactly once", title_justify="left", expand=False)
    shown.add_column("shop time", justify="right", no_wrap=True)
    for tea in TEAS:
        shown.add_column(tea, justify="right", no_wrap=True)
    shown.add_column("total", justify="right", style="bold", no_wrap=True)
    shown.add_column("", width=bar, no_wrap=True)
    for start in sorted(windows)[-_WINDOWS_SHOWN:]:
        cents = windows[start]
        total = sum(cents.values())
        shown.add_row(
            f"{start}-{start + WINDOW_S} s",
            *(f"{cents.get(tea, 0) / 100:,.0f}" for tea in TEAS),
            f"{total / 100:,.0f}",
            Text("█" * max(round(total / highest * bar), 1), style="green"),
        )
    return Group(shown, Text(summary(moment), style="dim"))
