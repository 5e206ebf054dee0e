"""Routes and limits that the schema registry and the console share."""

import pytest

from headwater.http_server.http_errors import HttpError
from headwater.http_server.http_requests import HttpRoute, RequestLimit, parse_json


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        (["subjects", "tea", "versions"], ["tea"]),
        (["subjects", "a%2Fb%20c", "versions"], ["a/b c"]),
        (["subjects", "tea"], None),
        (["subjects", "tea", "versions", "1"], None),
        (["topics", "tea", "versions"], None),
    ],
)
def test_path_parameters_are_decoded_after_the_path_is_split(
    segments: list[str], expected: list[str] | None
) -> None:
    assert HttpRoute(("subjects", None, "versions")).match(segments) == expected


def test_requests_above_the_limit_are_rejected_until_a_slot_is_free() -> None:
    limit = RequestLimit(1)
    with limit.slot():
        with pytest.raises(HttpError) as failure, limit.slot():
            pass
        assert failure.value.status == 503
    with limit.slot():
        pass


def test_slot_is_released_when_the_request_fails() -> None:
    limit = RequestLimit(1)
    with pytest.raises(KeyError), limit.slot():
        raise KeyError
    with limit.slot():
        pass


@pytest.mark.parametrize("raw", [b"{", b"\xff", b"[" * 100_000])
def test_body_that_is_not_json_is_a_bad_request(raw: bytes) -> None:
    with pytest.raises(HttpError) as failure:
        parse_json(raw)
    assert failure.value.status == 400
