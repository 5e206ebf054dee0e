"""Content negotiation."""

import pytest

from headwater.rest.media_types import V2, V2_PLAIN, accepted, chosen_type


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, V2),
        ("", V2),
        ("*/*", V2),
        ("text/html, application/*;q=0.5", V2),
        ("application/json", "application/json"),
        ("application/vnd.kafka.v2+json; q=0.1, application/json; q=0.5", "application/json"),
        ("Application/JSON;charset=utf-8", "application/json"),
        ("application/json;q=0", None),
        ("application/json;q=x", None),
        ("text/html", None),
        ("application/vnd.kafka.v1+json", None),
    ],
)
def test_best_accepted_type_is_chosen(header: str | None, expected: str | None) -> None:
    assert chosen_type(accepted(header), V2_PLAIN) == expected
