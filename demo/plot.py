"""Plot of the result: revenue by window and tea."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import matplotlib

from demo.shop import OPEN_S, TEAS, WINDOW_S, Cell, Revenue

_COLOURS: Final = {
    "green": "#7fb069",
    "black": "#3d405b",
    "white": "#e6d5b8",
    "oolong": "#e07a5f",
    "herbal": "#f2cc8f",
}


def draw(rows: Iterable[tuple[Cell, Revenue]], target: Path) -> None:
    """Save the plot as PNG."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = dict(rows)
    starts = range(0, OPEN_S, WINDOW_S)
    bottoms = [0.0] * len(starts)
    figure: Any
    axes: Any
    figure, axes = pyplot.subplots(figsize=(9, 4.5), dpi=120)
    for tea in TEAS:
        heights = [found.get(Cell(start, tea), Revenue(0, 0)).cents / 100 for start in starts]
        axes.bar(
            starts, heights, WINDOW_S * 0.9, bottoms, align="edge", color=_COLOURS[tea], label=tea
        )
        bottoms = [low + height for low, height in zip(bottoms, heights, strict=True)]
    axes.set_title("Paid within 30 s, per window of 10 s, exactly once")
    axes.set_xlabel("seconds since the shop opened")
    axes.set_ylabel("revenue")
    axes.legend(ncols=len(TEAS), loc="upper center", frameon=False)
    axes.set_ylim(0, max(bottoms) * 1.15 or 1)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(target)
    pyplot.close(figure)
