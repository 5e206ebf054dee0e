"""The charts of each page, from the history. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headwater.console.history.series import History, Measure

LINES_MAX: Final = 5
"""Lines in a chart; more cannot be told apart."""

Values = tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    """A line: one value per time of its chart, None in gaps."""

    name: str
    values: Values

    @property
    def last(self) -> float | None:
        return self.values[-1] if self.values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart. `unit`: bytes, bytes/s, records/s, records or ms."""

    title: str
    unit: str
    at_ms: tuple[int, ...]
    lines: tuple[ChartLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """The charts of a page, and what is missing in them."""

    charts: tuple[Chart, ...]
    notes: tuple[str, ...] = ()


def overview_charts(
    history: History, *, problems: dict[str, str], has_metrics: bool, groups_left_out: int
) -> Charts:
    total = _one_line(history, Measure.TOTAL)
    charts = [total("Records in", "records/s", "records")]
    if has_metrics:
        charts += [
            total("Bytes in", "bytes/s", "bytes-in"),
            total("Bytes out", "bytes/s", "bytes-out"),
        ]
    else:
        charts.append(total("Log growth", "bytes/s", "growth"))
    charts += [
        total("Log size", "bytes", "size"),
        _largest(history, "Lag of groups", "records", Measure.GROUP_LAG),
        _largest(history, "Busiest topics", "records/s", Measure.TOPIC_RECORDS),
    ]
    if has_metrics:
        charts.append(_largest(history, "Request time, p99", "ms", Measure.LATENCY))
    notes = [f"No metrics of {address}: {why}" for address, why in problems.items()]
    if groups_left_out:
        notes.append(f"The lag of {groups_left_out} more groups is not recorded.")
    if history.dropped:
        notes.append(f"{history.dropped} more topics and groups are not recorded.")
    return Charts(charts=tuple(charts), notes=tuple(notes))


def topic_charts(history: History, topic: str) -> Charts:
    return Charts(
        charts=(
            _one_line(history, Measure.TOPIC_RECORDS)("Records in", "records/s", topic),
            _one_line(history, Measure.TOPIC_GROWTH)("Log growth", "bytes/s", topic),
            _one_line(history, Measure.TOPIC_SIZE)("Log size", "bytes", topic),
        )
    )


def brokers_charts(history: History) -> Charts:
    """Charts with a line per broker, of the busiest ones."""
    charts = []
    if history.names(Measure.BROKER_BYTES_IN):
        charts += [
            _largest(history, "Bytes in", "bytes/s", Measure.BROKER_BYTES_IN),
            _largest(history, "Bytes out", "bytes/s", Measure.BROKER_BYTES_OUT),
        ]
    charts += [
        _largest(history, "Log growth", "bytes/s", Measure.BROKER_GROWTH),
        _largest(history, "Log size", "bytes", Measure.BROKER_SIZE),
    ]
    return Charts(charts=tuple(map(_with_broker_names, charts)))


def _with_broker_names(chart: Chart) -> Chart:
    lines = tuple(replace(each, name=f"Broker {each.name}") for each in chart.lines)
    return replace(chart, lines=lines)


def broker_charts(history: History, node_id: int) -> Charts:
    name = str(node_id)
    charts = []
    for measure, title in (
        (Measure.BROKER_BYTES_IN, "Bytes in"),
        (Measure.BROKER_BYTES_OUT, "Bytes out"),
    ):
        if name in history.names(measure):
            charts.append(_one_line(history, measure)(title, "bytes/s", name))
    charts += [
        _one_line(history, Measure.BROKER_GROWTH)("Log growth", "bytes/s", name),
        _one_line(history, Measure.BROKER_SIZE)("Log size", "bytes", name),
    ]
    return Charts(charts=tuple(charts))


def group_charts(history: History, group_id: str) -> Charts:
    """Empty if the lag of this group is not recorded."""
    if group_id not in history.names(Measure.GROUP_LAG):
        return Charts(charts=())
    return Charts(charts=(_one_line(history, Measure.GROUP_LAG)("Lag", "records", group_id),))


def _one_line(history: History, measure: Measure) -> Callable[[str, str, str], Chart]:
    def chart(title: str, unit: str, name: str) -> Chart:
        line = ChartLine(name=title, values=history.values(measure, name))
        return Chart(title=title, unit=unit, at_ms=history.times, lines=(line,))

    return chart


def _largest(history: History, title: str, unit: str, measure: Measure) -> Chart:
    names: Sequence[str] = history.largest(measure, LINES_MAX)
    lines = tuple(ChartLine(name=name, values=history.values(measure, name)) for name in names)
    return Chart(title=title, unit=unit, at_ms=history.times, lines=lines)
