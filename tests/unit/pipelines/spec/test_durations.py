"""Times as people write them."""

import pytest

from headwater.pipelines.spec.durations import duration_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("1s", 1_000),
        ("1.5 s", 1_500),
        ("10 minutes", 600_000),
        ("1 hour 30 minutes", 5_400_000),
        ("interval 2 days", 172_800_000),
    ],
)
def test_a_time_is_numbers_with_units(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", " ", "10", "soon", "10 moons", "1s x", "-1s"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert duration_ms(text) is None
