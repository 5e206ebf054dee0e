"""Single records: downloads, deletion and sizes, with a real broker."""

import json
from collections.abc import Iterator

import pytest

from headwater.client import Admin, NewTopic, Producer
from headwater.testing import EmbeddedBroker
from tests.console_process import ConsoleProcess

PAGE = b"<!doctype html><script>alert(1)</script>"
LARGE = b"\xff\x00" * 400_000


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        with (
            Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
            Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        ):
            admin.create_topics([NewTopic(name="tea", partitions=2)])
            admin.create_topics([NewTopic(name="doomed", partitions=2)])
            producer.send("tea", PAGE, key=PAGE, partition=0)
            producer.send("tea", LARGE, partition=0)
            producer.send("tea", None, partition=0)
            for number in range(10):
                producer.send("doomed", b"x", partition=number % 2)
        yield broker


@pytest.fixture(scope="module")
def console(broker: EmbeddedBroker) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(broker.bootstrap_servers) as console:
        yield console


@pytest.mark.parametrize("prefix", ["", "/api"])
def test_keys_and_values_are_downloaded_as_stored(console: ConsoleProcess, prefix: str) -> None:
    """As attachments, since untrusted bytes may look like a page."""
    for path, content in (("0/key", PAGE), ("0/value", PAGE), ("1/value", LARGE)):
        answer = console.get(f"{prefix}/topics/tea/records/0/{path}")
        assert (answer.status, answer.body) == (200, content)
        assert answer.headers["content-type"] == "application/octet-stream"
        name = f"tea-0-{path.replace('/', '.')}"
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["0/2/value", "0/1/key", "0/9/value", "7/0/value", "1/0/value"])
def test_null_or_missing_records_cannot_be_downloaded(console: ConsoleProcess, path: str) -> None:
    assert console.get(f"/topics/tea/records/{path}").status == 404


def test_record_page_links_to_the_download(console: ConsoleProcess) -> None:
    page = console.get("/topics/tea/records/0/1").text
    assert 'href="/topics/tea/records/0/1/value"' in page
    assert "download it to see all" in page
    assert "/value" not in console.get("/topics/tea/records/0/2").text


def edges(console: ConsoleProcess) -> list[tuple[int, int]]:
    rows = console.api("/topics/doomed")["partitions"]["rows"]
    return [(each["start"], each["end"]) for each in rows]


def test_deleting_records_needs_the_typed_topic_name(
    console: ConsoleProcess,
) -> None:
    path = "/topics/doomed/records/delete"
    for fields in ({}, {"confirm": "tea"}, {"confirm": "doomed", "partition": "5"}):
        assert console.post(path, fields).status in (400, 404)
    assert edges(console) == [(0, 5), (0, 5)]
    some = console.post(path, {"confirm": "doomed", "partition": "1", "offset": "2"})
    assert (some.status, some.headers["location"]) == (303, "/topics/doomed?done=records-deleted")
    assert edges(console) == [(0, 5), (2, 5)]
    assert console.post_json(path, {"confirm": "doomed"}).json["done"] == "records-deleted"
    assert edges(console) == [(5, 5), (5, 5)]


def test_changes_are_logged_and_reads_are_not(
    broker: EmbeddedBroker,
) -> None:
    with ConsoleProcess(broker.bootstrap_servers, "--log-format", "json") as console:
        console.api("/topics")
        assert console.post("/topics/tea/records", {"value": "secret"}).status == 303
        assert (
            console.post_json("/topics/tea/records", {"value": "x", "partition": 9}).status == 404
        )
        assert console.post_json("/groups/a%0Ab/reset", {"plan": "tea 0 1"}).status == 200
        told = [json.loads(line) for line in console.log_text.splitlines()]
    assert [each["message"] for each in told] == [
        "Change: record-sent host=127.0.0.1 path=/topics/tea/records",
        "Change: offsets-reset host=127.0.0.1 path=/api/groups/a%0Ab/reset",
    ]
    assert {each["level"] for each in told} == {"info"}


def test_headers_count_towards_the_size_of_a_page(
    console: ConsoleProcess, broker: EmbeddedBroker
) -> None:
    """Otherwise a topic of tiny values could make a page of a hundred megabytes."""
    large = b"h" * 900_000
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for _ in range(45):
            producer.send("headers", b"v", headers=[("large", large)]).result(60)
    answer = console.get("/api/topics/headers/records?start=oldest&limit=200")
    assert answer.json["ended_early"]
    assert 0 < len(answer.json["records"]) < 45
    assert len(answer.body) < 1_000_000
    [header] = answer.json["records"][0]["headers"]
    assert (len(header["value"]["text"]), header["value"]["is_cut"]) == (500, True)
    assert "… (truncated)" in console.get("/topics/headers/records?start=oldest&limit=10").text
    [whole] = console.api("/topics/headers/records/0/0")["record"]["headers"]
    assert (whole["value"]["text"], whole["value"]["is_cut"]) == (large.decode(), False)
