"""Registries that are away for a while, and schemas that refer to others."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headwater.client.schema_registry import RegistryResponseError, RegistryUnreachable
from headwater.schemas.avro.resolved_schema import Plain, Record
from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.formats.avro.avro_options import RegistryAccess
from headwater.spark.formats.avro.registry_cache import RetryingRegistry

Answers = list[tuple[int, Any]]


@contextmanager
def registry_that_says(answers: Answers) -> Iterator[str]:
    """One answer after the other, whatever is asked."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers.pop(0)
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


AWAY = (503, {"error_code": 50003, "message": "not yet"})
NO_SCHEMA = (404, {"error_code": 40403, "message": "no such schema"})
LONG = (200, {"schema": '"long"'})


def patient(url: str, pauses: list[float]) -> RetryingRegistry:
    return RetryingRegistry(RegistryAccess(url), pauses_s=(0.1, 0.2), pause=pauses.append)


def test_a_registry_is_asked_again_until_it_answers() -> None:
    pauses: list[float] = []
    with registry_that_says([AWAY, AWAY, LONG]) as url:
        assert patient(url, pauses).by_id(7) == Plain(kind="long")
    assert pauses == [0.1, 0.2]


def test_a_registry_that_stays_away_is_not_asked_for_ever() -> None:
    answers = [AWAY] * 5
    with registry_that_says(answers) as url, pytest.raises(RegistryResponseError, match="not yet"):
        patient(url, []).by_id(7)
    assert len(answers) == 2


def test_unreachable_registry_is_reported_with_its_address() -> None:
    pauses: list[float] = []
    with pytest.raises(RegistryUnreachable, match=r"127\.0\.0\.1:1 does not answer"):
        patient("http://127.0.0.1:1", pauses).latest("tea-value")
    assert pauses == [0.1, 0.2]


def test_a_schema_that_comes_a_moment_later_is_found() -> None:
    with registry_that_says([NO_SCHEMA, LONG]) as url:
        assert patient(url, []).by_id(7) == Plain(kind="long")


def test_a_schema_that_is_missing_twice_is_missing() -> None:
    answers = [NO_SCHEMA, NO_SCHEMA]
    with registry_that_says(answers) as url:
        assert patient(url, []).by_id(7) is None
    assert not answers


def test_a_number_that_no_schema_has_is_not_asked_for() -> None:
    assert patient("http://127.0.0.1:1", []).by_id(0) is None


def test_schemas_that_a_schema_refers_to_are_fetched_with_what_they_refer_to() -> None:
    maker = {"type": "record", "name": "Maker", "fields": [{"name": "town", "type": "Town"}]}
    town = {"type": "record", "name": "Town", "fields": [{"name": "name", "type": "string"}]}
    to_maker = {"name": "Maker", "subject": "maker", "version": 1}
    to_town = {"name": "Town", "subject": "town", "version": 2}
    answers: Answers = [
        (200, {"schema": '["null", "Maker"]', "references": [to_maker]}),
        (200, {"id": 5, "schema": json.dumps(maker), "references": [to_town]}),
        (200, {"id": 6, "schema": json.dumps(town), "references": [to_maker]}),
    ]
    with registry_that_says(answers) as url:
        found: Any = patient(url, []).by_id(7)
    record = found.branches[1]
    assert isinstance(record, Record)
    assert isinstance(record.fields[0].schema, Record)


def test_a_schema_that_is_not_avro_is_refused() -> None:
    with (
        registry_that_says([(200, {"schema": "{}", "schemaType": "JSON"})]) as url,
        pytest.raises(UnsupportedSchema, match="schema 7 is JSON, not Avro"),
    ):
        patient(url, []).by_id(7)
