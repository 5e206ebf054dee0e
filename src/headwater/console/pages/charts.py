"""Draw charts as SVG, which needs neither a script nor styles in elements.

The drawing stretches to the width of its tile, so it has no text in it: the labels of the axes are
HTML beside it. The script adds a line under the pointer and the values there.
"""

import json
from collections.abc import Sequence
from typing import Final

from headwater.console.html import Child, Html, tag
from headwater.console.pages.parts import empty, number_text, section, size_text
from headwater.console.times import clock_text
from headwater.console.views.charts import Chart, ChartLine, Charts, Values

WIDTH: Final = 600
HEIGHT: Final = 120
TABLE_ROWS: Final = 12

_STEPS: Final = (1, 2, 2.5, 5, 10)
_BYTE_UNIT: Final = 1024


def charts_section(title: str, page_data: Charts) -> Html | None:
    """A section with the charts; None without any."""
    if not page_data.charts:
        return None
    notes = [tag("p", each, class_="quiet") for each in page_data.notes]
    if len(page_data.charts[0].at_ms) < 2:
        return section(title, empty("Measuring. The charts appear in a few seconds."), notes)
    return section(
        title,
        [
            tag("div", [_tile(each) for each in some], class_="tiles charts")
            for some in _rows(page_data.charts)
        ],
        notes,
        _data_table(page_data.charts),
        id="charts",
    )


def value_text(value: float | None, unit: str) -> str:
    """A value with its unit, short enough for an axis."""
    if value is None:
        return "-"
    match unit:
        case "bytes":
            return size_text(value)
        case "bytes/s":
            return f"{size_text(value)}/s"
        case "ms":
            return f"{value:,.1f} ms" if value < 100 else f"{value:,.0f} ms"
        case "records/s":
            return f"{_short(value)}/s"
        case _:
            return _short(value)


def nice_top(value: float, *, is_bytes: bool) -> float:
    """The end of an axis: the next round number."""
    unit = 1.0
    while is_bytes and value >= unit * _BYTE_UNIT:
        unit *= _BYTE_UNIT
    scaled = max(value / unit, 1.0)
    power = 1.0
    while scaled > power * 10:
        power *= 10
    return next(step * power * unit for step in _STEPS if scaled <= step * power)


def _short(value: float) -> str:
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value / (1e3 if letter == 'k' else limit):,.1f} {letter}"
    return f"{value:,.1f}" if 0 < value < 10 and value != int(value) else number_text(int(value))


def _is_single(chart: Chart) -> bool:
    return len(chart.lines) == 1 and chart.lines[0].name == chart.title


def _rows(charts: Sequence[Chart]) -> list[list[Chart]]:
    """Charts of one line, then those with a legend, which are higher."""
    single = [each for each in charts if _is_single(each)]
    return [some for some in (single, [each for each in charts if not _is_single(each)]) if some]


def _tile(chart: Chart) -> Html:
    known = [each for line in chart.lines for each in line.values if each is not None]
    top = nice_top(max(known, default=0.0), is_bytes=chart.unit.startswith("bytes"))
    heading = tag("h3", chart.title)
    if not known:
        return tag("div", heading, empty("Nothing to show yet."), class_="tile chart")
    is_single = _is_single(chart)
    now = tag("strong", value_text(chart.lines[0].last, chart.unit)) if is_single else None
    ticks = tuple(value_text(each, chart.unit) for each in (top, top / 2, 0))
    return tag(
        "div",
        tag("div", heading, now, class_="chart-head"),
        tag(
            "div",
            tag("div", [tag("span", each) for each in ticks], class_="y", aria_hidden="true"),
            _drawing(chart, top, is_single=is_single),
            class_="plot",
        ),
        tag(
            "div",
            tag("span", clock_text(chart.at_ms[0])),
            tag("span", "", class_="readout"),
            tag("span", f"{clock_text(chart.at_ms[-1])} UTC"),
            class_="x",
            aria_hidden="true",
        ),
        None if is_single else _legend(chart),
        class_="tile chart",
    )


def _legend(chart: Chart) -> Html:
    return tag(
        "ul",
        [
            tag(
                "li",
                tag(
                    "svg",
                    tag("path", d="M1 3H23", class_=f"line line-{index}"),
                    viewBox="0 0 24 6",
                    class_="swatch",
                    aria_hidden="true",
                ),
                tag("span", line.name, class_="name"),
                " ",
                tag("strong", value_text(line.last, chart.unit)),
            )
            for index, line in enumerate(chart.lines)
        ],
        class_="legend",
    )


def _drawing(chart: Chart, top: float, *, is_single: bool) -> Html:
    grid = [tag("path", d=f"M0 {y}H{WIDTH}", class_="grid") for y in (1, HEIGHT // 2, HEIGHT - 1)]
    shapes: list[Child] = []
    for index, line in enumerate(chart.lines):
        runs = _runs(chart.at_ms, line.values, top)
        if is_single:
            shapes += [tag("path", d=_area(run), class_="area") for run in runs]
        path = "".join(map(_path, runs))
        shapes.append(tag("path", d=path, class_=f"line line-{index}"))
    data = {
        "unit": chart.unit,
        "at": [clock_text(each) for each in chart.at_ms],
        "x": [round(each, 1) for each in _positions(chart.at_ms)],
        "lines": [
            {"name": line.name, "texts": [value_text(each, chart.unit) for each in line.values]}
            for line in chart.lines
        ],
    }
    return tag(
        "svg",
        grid,
        shapes,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        tabindex="0",
        data_chart=json.dumps(data, separators=(",", ":")),
        aria_label=_summary(chart),
    )


def _summary(chart: Chart) -> str:
    """What a screen reader says instead of the drawing."""
    parts = [
        f"{line.name}: now {value_text(line.last, chart.unit)}, "
        f"highest {value_text(_highest(line), chart.unit)}"
        for line in chart.lines
    ]
    return f"Chart, {chart.title}. {'; '.join(parts)}."


def _highest(line: ChartLine) -> float | None:
    return max((each for each in line.values if each is not None), default=None)


def _positions(at_ms: Sequence[int]) -> list[float]:
    first, span = at_ms[0], max(at_ms[-1] - at_ms[0], 1)
    return [(each - first) / span * WIDTH for each in at_ms]


Point = tuple[float, float]


def _runs(at_ms: Sequence[int], values: Values, top: float) -> list[list[Point]]:
    """The points of a line, split at its gaps."""
    runs: list[list[Point]] = []
    is_open = False
    for x, value in zip(_positions(at_ms), values, strict=True):
        if value is None:
            is_open = False
            continue
        if not is_open:
            runs.append([])
            is_open = True
        runs[-1].append((x, HEIGHT - 2 - value / top * (HEIGHT - 4)))
    return runs


def _path(run: Sequence[Point]) -> str:
    first, *rest = (f"{x:.1f} {y:.1f}" for x, y in run)
    # A line of no length, which its round cap makes a dot.
    return f"M{first}" + ("".join(f"L{each}" for each in rest) or "h0")


def _area(run: Sequence[Point]) -> str:
    return f"{_path(run)}V{HEIGHT}H{run[0][0]:.1f}Z"


def _data_table(charts: Sequence[Chart]) -> Html:
    """The same numbers as a table, at some moments."""
    at_ms = charts[0].at_ms
    step = max(-(-len(at_ms) // TABLE_ROWS), 1)
    chosen = list(range(len(at_ms) - 1, -1, -step))
    columns = [
        (chart, line, chart.title if line.name == chart.title else f"{chart.title}: {line.name}")
        for chart in charts
        for line in chart.lines
    ]
    head = tag(
        "tr",
        tag("th", "Time (UTC)", scope="col"),
        [tag("th", name, scope="col", class_="num") for *_, name in columns],
    )
    rows = [
        tag(
            "tr",
            tag("td", clock_text(at_ms[index])),
            [
                tag("td", value_text(line.values[index], chart.unit), class_="num")
                for chart, line, _ in columns
            ],
        )
        for index in chosen
    ]
    table = tag("table", tag("thead", head), tag("tbody", rows), aria_label="Data of the charts")
    return tag(
        "details",
        tag("summary", "Data as a table"),
        tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="Data"),
        class_="chart-data",
    )
