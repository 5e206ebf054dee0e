"""Answers of tools: limits, and text that is not what it seems."""

import json
from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from headwater.mcp.bounded_answers import AnswerLimits, answer_text

LIMITS = AnswerLimits(bytes=1_000)


def test_an_answer_within_the_limits_is_whole() -> None:
    answer = {"note": "n", "rows": [1, 2], "name": "té"}
    assert answer_text(answer, LIMITS) == '{"note":"n","rows":[1,2],"name":"té"}'


def test_rows_that_do_not_fit_are_left_out_and_counted() -> None:
    text = answer_text({"note": "n", "rows": ["x" * 50] * 40, "few": [1]}, LIMITS)
    assert len(text.encode()) <= LIMITS.bytes
    found = json.loads(text)
    kept = len(found["rows"])
    assert 10 < kept < 40
    assert found["truncated"].startswith(f"{40 - kept} of 40 rows were left out")
    assert found["few"] == [1]


def test_a_single_value_that_does_not_fit_is_cut() -> None:
    found = json.loads(answer_text({"schema": "s" * 5_000}, LIMITS))
    assert "limit is 1000" in found["truncated"]
    assert found["beginning"].startswith('{"schema":"sss')


def test_invisible_characters_are_escaped() -> None:
    hidden = "a\u202eb\u200bc\U000e0041d\x1b[2Je"
    text = answer_text({"value": hidden}, LIMITS)
    assert text.isprintable()
    assert json.loads(text) == {"value": hidden}


def test_values_that_json_does_not_have_are_text() -> None:
    answer = {
        "text": b"tea",
        "bytes": b"\xff",
        "time": datetime(2026, 1, 31, tzinfo=UTC),
        "price": Decimal("1.10"),
    }
    assert json.loads(answer_text(answer, LIMITS)) == {
        "text": "tea",
        "bytes": {"base64": "/w=="},
        "time": "2026-01-31T00:00:00+00:00",
        "price": "1.10",
    }


@given(st.lists(st.text(max_size=80), max_size=60), st.integers(600, 3_000))
def test_every_answer_is_printable_json_within_the_limit(rows: list[str], size: int) -> None:
    text = answer_text({"rows": rows}, AnswerLimits(bytes=size))
    assert text.isprintable()
    assert isinstance(json.loads(text), dict)
    assert len(text.encode()) <= size
