"""Hostile requests to the REST API are refused, and the server keeps serving."""

import http.client
import json
import socket
from collections.abc import Iterator

import pytest

from headwater.testing import EmbeddedBroker
from tests.rest_server import BINARY, JSON, TIMEOUT_S, V2, RestServer

LIMIT = 100_000
INSTANCES_MAX = 3


@pytest.fixture(scope="module")
def rest() -> Iterator[RestServer]:
    settings = {
        "headwater.request.max.bytes": str(LIMIT),
        "headwater.consumer.instances.max": str(INSTANCES_MAX),
        "idle.timeout.ms": "300",
    }
    with EmbeddedBroker() as broker, RestServer(broker.bootstrap_servers, settings) as rest:
        assert (
            rest.post("/topics/tea", {"records": [{"value": 1}]}, content_type=JSON).status == 200
        )
        yield rest
        assert rest.get("/topics").status == 200
        assert "Traceback" not in rest.log_text


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:8082"},
        {"Host": "[evil.example]"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_requests_of_other_sites_are_rejected(rest: RestServer, headers: dict[str, str]) -> None:
    body = {"records": [{"value": "evil"}]}
    answer = rest.ask("POST", "/topics/tea", body, content_type=JSON, headers=headers)
    assert answer.error_code == (403, 403)
    assert "access-control-allow-origin" not in answer.headers


def test_background_request_of_another_site_cannot_read(rest: RestServer) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert rest.ask("GET", "/topics", headers=headers).status == 403


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
        "application/json",
    ],
)
def test_types_that_forms_can_send_are_rejected(rest: RestServer, content_type: str) -> None:
    body = {"records": [{"value": "evil"}]}
    raw = json.dumps(body).encode()
    headers = {"Content-Type": content_type} if content_type else {}
    connection = http.client.HTTPConnection(rest.address, timeout=TIMEOUT_S)
    connection.request("POST", "/topics/tea", raw, headers)
    assert connection.getresponse().status == 415
    connection.close()


def test_oversized_body_is_rejected(rest: RestServer) -> None:
    body = {"records": [{"value": "x" * LIMIT}]}
    assert rest.post("/topics/tea", body, content_type=JSON).error_code == (413, 413)
    path = f"{rest.cluster}/topics/tea/records"
    answer = rest.post(path, {"value": {"type": "STRING", "data": "x" * LIMIT}})
    assert [json.loads(line)["error_code"] for line in answer.raw.splitlines()] == [413]


@pytest.mark.parametrize(
    "path",
    [
        "/topics/..%2f..%2fetc%2fpasswd",
        "/topics/tea/../../v3/clusters",
        "/topics/%00",
        "/topics/tea%0aX-Evil:%201",
        "/topics/%ff%fe",
        "/topics/tea/partitions/-1",
        "/topics/tea/partitions/1e3",
        "/topics/tea/partitions/%D9%A3",
        f"/topics/tea/partitions/{'9' * 5000}",
        f"/topics/{'x' * 5000}",
        "/v3/clusters/%2e%2e/topics",
        "/consumers/a/instances/b/records",
        "/consumers/a%2finstances%2fb/instances/..",
        "//evil.example/topics",
        "/openapi.json/..",
    ],
    ids=lambda path: path[:30],
)
def test_path_tricks_find_nothing(rest: RestServer, path: str) -> None:
    answer = rest.get(path)
    assert answer.status in (400, 404, 405), answer.raw
    assert isinstance(answer.json["error_code"], int)


@pytest.mark.parametrize(
    "query",
    ["timeout=" + "9" * 5000, "timeout=1e9", "max_bytes=%00"],
    ids=["digits", "float", "nul"],
)
def test_query_tricks_are_rejected(rest: RestServer, query: str) -> None:
    assert rest.post("/consumers/queries", {"name": "q"}).status == 200
    assert rest.get(f"/consumers/queries/instances/q/records?{query}").status == 404
    assert rest.ask("DELETE", "/consumers/queries/instances/q").status == 204
    assert rest.get("/topics?" + "&".join(["a=1"] * 200)).status == 400
    assert rest.get("/topics?" + "a" * 40_000).status in (400, 414)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"records": 1}',
        b'{"records": [1]}',
        b'{"records": [{"value": "!"}]}',
        b'{"records": [{"value": 1}]}',
        b'{"records": [{"value": "eA==", "partition": 99999999999999999999}]}',
        b'{"records": [{"value": "eA==", "partition": true}]}',
        b'{"records": [{"value": "\\ud800"}]}',
        b"[" * 50_000,
        b'{"records": [{"value": ' + b"9" * 5_000 + b"}]}",
    ],
    ids=lambda body: body[:30].decode(),
)
def test_malformed_produce_request_is_rejected(rest: RestServer, body: bytes) -> None:
    answer = rest.ask("POST", "/topics/tea", body, content_type=BINARY)
    assert answer.status in (400, 422), answer.raw


def test_number_of_instances_is_limited(rest: RestServer) -> None:
    for each in range(INSTANCES_MAX):
        assert rest.post("/consumers/many", {"name": f"m{each}"}).status == 200
    assert rest.post("/consumers/many", {"name": "more"}).error_code == (429, 429)
    for each in range(INSTANCES_MAX):
        assert rest.ask("DELETE", f"/consumers/many/instances/m{each}").status == 204


def test_name_and_pattern_of_an_instance_are_checked(rest: RestServer) -> None:
    long = {"name": "n" * 1_000}
    assert rest.post("/consumers/checked", long).error_code == (422, 42204)
    wrong = {"name": "w", "auto.offset.reset": "sideways"}
    assert rest.post("/consumers/checked", wrong).error_code == (422, 42204)
    assert rest.post("/consumers/checked", {"name": "w", "format": "xml"}).status == 422
    assert rest.post("/consumers/checked", {"name": "w"}).status == 200
    path = "/consumers/checked/instances/w"
    for pattern in ("(", "(a)\\1", "(a{500}){500}"):
        assert rest.post(f"{path}/subscription", {"topic_pattern": pattern}).status == 422
    # Backtracks for ever in Python's `re`.
    catastrophe = {"topic_pattern": "(e|ea|t|te|tea)*x|(a+)+b"}
    assert rest.post(f"{path}/subscription", catastrophe).status == 204
    assert rest.get(f"{path}/records").json == []
    assert rest.ask("DELETE", path).status == 204


def test_silent_stream_is_closed(rest: RestServer) -> None:
    """The first record is answered, then the client sends nothing more."""
    path = f"{rest.cluster}/topics/tea/records"
    host, port = rest.address.split(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as client:
        client.sendall(
            f"POST {path} HTTP/1.1\r\nHost: {rest.address}\r\nContent-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        record = b'{"value": {"type": "STRING", "data": "one"}}'
        client.sendall(f"{len(record):x}\r\n".encode() + record + b"\r\n")
        received = b""
        while chunk := client.recv(65_536):
            received += chunk
    assert b'"error_code":200' in received
    assert b'"error_code":408' in received


def test_responses_have_safe_headers(rest: RestServer) -> None:
    answer = rest.get("/topics/<script>", accept="*/*")
    assert answer.media_type == V2
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
