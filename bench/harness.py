"""Record figures with goals, print a table and write a JSON file.

Note: compare contenders only with `in_turn` and `median_of_rounds`, which interleave them. A
machine that slows down halfway then slows all of them, and the comparison stays fair.
"""

import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from bench.conditions import present_conditions

RESULTS = Path(__file__).parent / "results"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Measured figure with its goal, if any."""

    name: str
    value: float
    unit: str
    compared_with: str | None = None
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether every goal is met; None without a goal."""
        if self.at_least is None and self.at_most is None:
            return None
        # Written so that a NaN, which compares false with everything, misses its goal.
        enough = self.at_least is None or self.value >= self.at_least
        little_enough = self.at_most is None or self.value <= self.at_most
        return enough and little_enough

    @property
    def goal(self) -> str:
        goals = []
        if self.at_least is not None:
            goals.append(f"≥ {in_short(self.at_least)}")
        if self.at_most is not None:
            goals.append(f"≤ {in_short(self.at_most)}")
        return ", ".join(goals)


class Bench:
    """One run of one benchmark: record figures, then finish."""

    def __init__(
        self,
        name: str,
        title: str,
        *,
        results: Path = RESULTS,
        console: Console | None = None,
    ) -> None:
        self._name = name
        self._title = title
        self._results = results
        self._console = console or Console()
        self._figures: dict[str, Figure] = {}

    def record(
        self,
        name: str,
        value: float,
        unit: str,
        *,
        compared_with: str | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        if name in self._figures:
            raise ValueError(f"the figure {name!r} was recorded before")
        self._figures[name] = Figure(
            name=name,
            value=value,
            unit=unit,
            compared_with=compared_with,
            at_least=at_least,
            at_most=at_most,
        )

    def finish(self) -> int:
        """Print the table and write the result file; return 0 if every goal is met, else 1.

        A run without figures is a failure: it measured nothing.
        """
        figures = list(self._figures.values())
        self._console.print(_table(self._title, figures))
        path = self._write(figures)
        missed = [figure.name for figure in figures if figure.met is False]
        if missed:
            self._console.print(f"missed: {', '.join(missed)}", style="bold red", markup=False)
        if not figures:
            self._console.print("nothing was measured", style="bold red")
        self._console.print(f"written to {path}", style="dim", markup=False, soft_wrap=True)
        return 1 if missed or not figures else 0

    def _write(self, figures: list[Figure]) -> Path:
        self._results.mkdir(parents=True, exist_ok=True)
        path = self._results / f"{self._name}.json"
        result = {
            "name": self._name,
            "conditions": present_conditions(),
            "figures": [_as_json(figure) for figure in figures],
        }
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        return path


def in_turn(contenders: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run contenders in interleaved rounds; return their results.

    The order rotates each round, so that no contender always runs first, on cold caches.
    """
    if rounds < 1:
        raise ValueError("at least one round is needed")
    labels = list(contenders)
    outcomes: dict[str, list[T]] = {label: [] for label in labels}
    for turn in range(rounds):
        first = turn % max(1, len(labels))
        for label in labels[first:] + labels[:first]:
            outcomes[label].append(contenders[label]())
    return outcomes


def median_of_rounds(
    contenders: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, float]:
    """Return the median seconds of each contender over interleaved rounds."""
    timed = {label: partial(_seconds, run) for label, run in contenders.items()}
    seconds = in_turn(timed, rounds)
    return {label: statistics.median(times) for label, times in seconds.items()}


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def in_short(value: float) -> str:
    """Format a number for people: three significant digits, thousands separators, no exponent."""
    if value != 0 and abs(value) < 100:
        return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.2g}"
    return f"{value:,.0f}"


def _table(title: str, figures: list[Figure]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("figure", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("compared with", overflow="fold")
    table.add_column("goal", justify="right", no_wrap=True)
    table.add_column("met")
    for figure in figures:
        table.add_row(
            figure.name,
            f"{in_short(figure.value)} {figure.unit}",
            figure.compared_with or "",
            figure.goal,
            {True: "[green]yes", False: "[bold red]NO", None: ""}[figure.met],
        )
    return table


def _as_json(figure: Figure) -> dict[str, object]:
    limits = {"at_least": figure.at_least, "at_most": figure.at_most}
    goal = {kind: limit for kind, limit in limits.items() if limit is not None}
    return {
        "name": figure.name,
        "value": figure.value,
        "unit": figure.unit,
        "compared_with": figure.compared_with,
        "goal": goal or None,
        "met": figure.met,
    }
