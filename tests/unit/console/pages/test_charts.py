"""Charts as SVG."""

import pytest

from headwater.console.pages.charts import charts_section, nice_top, value_text
from headwater.console.views.charts import Chart, ChartLine, Charts, Values

HOSTILE = "\"'></svg><script>alert(1)</script>"


def section_of(*lines: tuple[str, Values], title: str = "Lag", points: int = 3) -> str:
    chart = Chart(
        title=title,
        unit="records",
        at_ms=tuple(each * 5_000 for each in range(points)),
        lines=tuple(ChartLine(name=name, values=values) for name, values in lines),
    )
    return str(charts_section("Activity", Charts(charts=(chart,), notes=("A note.",))))


def test_page_says_that_it_measures_until_there_are_two_points() -> None:
    page = section_of(("Lag", (1.0,)), points=1)
    assert "Measuring." in page
    assert "A note." in page
    assert "<svg" not in page
    assert charts_section("Activity", Charts(charts=())) is None


def test_gaps_of_a_line_are_not_bridged() -> None:
    page = section_of(("Lag", (0.0, None, 10.0)))
    assert 'd="M0.0 118.0h0M600.0 2.0h0" class="line line-0"' in page


def test_chart_has_its_values_for_screen_readers_and_as_a_table() -> None:
    page = section_of(("drinkers", (1.0, 3.0, 2.0)), ("eaters", (None, None, None)))
    assert 'aria-label="Chart, Lag. drinkers: now 2, highest 3; eaters: now -, highest -."' in page
    assert "Lag: drinkers</th>" in page
    assert page.count("<tr>") == 4


def test_names_in_charts_are_escaped() -> None:
    page = section_of((HOSTILE, (1.0, 2.0, 3.0)), title=HOSTILE)
    assert "<script" not in page
    assert page.count("</svg>") == 1


def test_chart_without_values_says_so() -> None:
    assert "Nothing to show yet." in section_of(("Lag", (None, None, None)))


@pytest.mark.parametrize(
    ("value", "is_bytes", "top"),
    [(0, False, 1), (7, False, 10), (11, False, 20), (999, False, 1000), (1500, True, 2048)],
)
def test_axis_ends_at_a_round_number(value: float, is_bytes: bool, top: float) -> None:
    assert nice_top(value, is_bytes=is_bytes) == top


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "ms", "-"),
        (0.5, "records/s", "0.5/s"),
        (12_340, "records/s", "12.3 k/s"),
        (2_500_000, "records", "2.5 M"),
        (1536, "bytes/s", "1.5 KiB/s"),
        (1234, "ms", "1,234 ms"),
    ],
)
def test_values_are_short(value: float | None, unit: str, text: str) -> None:
    assert value_text(value, unit) == text
