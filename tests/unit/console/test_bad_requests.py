"""Invalid requests to the console are rejected at once, without side effects."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from headwater.client import Admin, TopicPartition
from headwater.client.schema_registry import SchemaRegistry
from headwater.testing import EmbeddedBroker, EmbeddedRegistry
from tests.console_process import ConsoleProcess

TEA = '{"type":"record","name":"Tea","fields":[{"name":"kind","type":"string"}]}'
HUGE = "9" * 5_000


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker: EmbeddedBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("tea", partitions=2)
        admin.alter_group_offsets("drinkers", {TopicPartition("tea", 0): 0})
        yield admin


@pytest.fixture(scope="module")
def console(broker: EmbeddedBroker, admin: Admin) -> Iterator[ConsoleProcess]:
    del admin
    with EmbeddedRegistry(broker.bootstrap_servers) as registry:
        with SchemaRegistry(registry.url) as schemas:
            schemas.register("tea-value", TEA)
        url = registry.url.replace("://", "://reader:secret@")
        with ConsoleProcess(broker.bootstrap_servers, "--registry", url) as console:
            yield console


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/topics", {"name": "more", "partitions": 10**17}, 400),
        ("/topics/tea/partitions", {"partitions": 10**17}, 400),
        ("/topics/tea/records", {"value": "x", "partition": 10**17}, 404),
        ("/topics/tea/records", {"value": "x", "partition": 2}, 404),
        ("/topics/tea/records", {"value": "x", "partition": -1}, 404),
        ("/topics/tea/records", {"value": '{"kind": 1}', "value_format": "avro"}, 400),
        ("/groups/drinkers/reset", {"plan": f"tea 0 {HUGE}"}, 400),
        ("/groups/drinkers/reset", {"plan": f"tea {HUGE} 0"}, 400),
        ("/groups/drinkers/reset", {"plan": "tea 99999999999 0"}, 400),
        (
            "/transactions/abort",
            {"topic": "tea", "partition": 9, "producer_id": 1, "confirm": "1"},
            404,
        ),
    ],
)
def test_invalid_number_is_rejected_at_once(
    console: ConsoleProcess, path: str, body: dict[str, object], status: int
) -> None:
    answer = console.post_json(path, body)
    assert answer.status == status, answer.text
    assert "cannot encode" not in answer.text


@pytest.mark.parametrize("cursor", [f"{HUGE}:1", f"0:{HUGE}"])
def test_cursor_with_thousands_of_digits_is_rejected(console: ConsoleProcess, cursor: str) -> None:
    answer = console.get(f"/api/topics/tea/records?after={cursor}")
    assert (answer.status, "Invalid cursor" in answer.text) == (400, True)


def test_producing_to_an_unknown_topic_does_not_create_it(
    console: ConsoleProcess, admin: Admin
) -> None:
    """The producer would auto-create the topic, so that a typo would become a topic."""
    answer = console.post_json("/topics/tae/records", {"value": "green"})
    assert (answer.status, answer.json["error"]) == (404, "There is no topic 'tae'.")
    assert "tae" not in admin.list_topics()


def test_json_headers_and_values_are_produced_unchanged(console: ConsoleProcess) -> None:
    headers = {"a=b": "c", "lines": "one\ntwo=2", "spaces": "  x  ", "number": 7}
    body = {"value": {"kind": ["green", 1]}, "value_format": "json", "headers": headers}
    done = console.post_json("/topics/tea/records", {**body, "partition": 1})
    assert done.status == 200, done.text
    record = console.api(f"/topics/tea/records/1/{done.json['offset']}?value_format=text")["record"]
    assert record["value"]["text"] == '{"kind": ["green", 1]}'
    assert {each["name"]: each["value"]["text"] for each in record["headers"]} == {
        **headers,
        "number": "7",
    }


def test_time_before_1970_means_the_first_record(console: ConsoleProcess) -> None:
    console.post_json("/topics/tea/records", {"value": "x", "partition": 0})
    for text in ("0001-01-01", "1969-12-31T23:59:59.999"):
        found = console.api(f"/topics/tea/records?start=time&at={quote(text)}&partition=0")
        assert found["records"][0]["offset"] == 0


def test_pages_do_not_contain_the_registrys_password(console: ConsoleProcess) -> None:
    for path in ("/api/schemas", "/schemas", "/api/schemas/tea-value"):
        assert "secret" not in console.get(path).text


def test_rejected_form_keeps_the_typed_values(console: ConsoleProcess) -> None:
    """Pages are not cached, so going back would show an empty form."""
    typed = {"value": '{"kind": <b>', "value_format": "json", "key": "k&y", "headers": "a=1"}
    page = console.post("/topics/tea/records", typed)
    assert page.status == 400
    assert "Invalid JSON" in page.text
    for part in ("{&quot;kind&quot;: &lt;b&gt;</textarea>", 'value="k&amp;y"', "a=1</textarea>"):
        assert part in page.text
    assert '<option value="json" selected>json</option>' in page.text
    made = console.post("/topics", {"name": "two words", "configs": "retention.ms=5"})
    assert made.status == 409
    assert 'value="two words"' in made.text
    assert "retention.ms=5</textarea>" in made.text
    changed = console.post("/topics/tea/configs", {"name": "retention.ms", "value": "soon"})
    assert changed.status == 409
    assert 'value="soon"' in changed.text
