"""Published runs of pipelines, schemas and messages of several topics, with a real broker."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from headwater.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from headwater.network.system_clock import SystemClock
from headwater.pipelines.run.run_records import (
    TOPIC,
    TOPIC_CONFIGS,
    PublishedRun,
    PublishedRuns,
    run_record,
)
from headwater.testing import EmbeddedBroker, EmbeddedRegistry
from tests.console_process import TIMEOUT_S, ConsoleProcess

HOSTILE = "\"'></td><script>alert(1)</script>"
TEA = '{"type":"record","name":"Tea","fields":[{"name":"kind","type":"string"}]}'
NOW_MS = SystemClock().now_ms()
RUN = PublishedRun(
    name="orders/lake",
    host=HOSTILE,
    pid=17,
    file=HOSTILE,
    started_ms=NOW_MS - 60_000,
    # Reports of the future count as fresh, so that the test does not depend on its speed.
    told_ms=NOW_MS + 3_600_000,
    state="running",
    sinks=(
        {"sink": "lake", "state": "running", "rows_per_second": 10.5, "lag": 7, "batch_ms": 40},
        {"sink": HOSTILE, "state": HOSTILE, "rows_per_second": 2, "lag": 5, "error": HOSTILE},
        {"sink": "dead-letters-of-orders", "state": "running", "rows": 3, "lag": None},
        {"sink": ["odd"], "state": None, "lag": "many", "rows": 1e300, "batch_ms": True},
    ),
)
DEAD = replace(RUN, name="dead", told_ms=NOW_MS - 3_600_000, sinks=())


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def console(broker: EmbeddedBroker) -> Iterator[ConsoleProcess]:
    with (
        EmbeddedRegistry(broker.bootstrap_servers) as registry,
        ConsoleProcess(broker.bootstrap_servers, "--registry", registry.url) as console,
    ):
        # Before the topic exists.
        assert console.api("/pipelines") == {"runs": []}
        assert "No pipeline has published its state" in console.get("/pipelines").text
        assert console.get("/pipelines/orders").status == 404
        fill(broker)
        yield console


def fill(broker: EmbeddedBroker) -> None:
    servers = broker.bootstrap_servers
    runs = NewTopic(name=TOPIC, partitions=1, configs=dict(TOPIC_CONFIGS))
    unusable = (
        (b"{", b"{}"),
        (b'{"kind": "run", "name": "x"}', b'{"version": 1, "started_ms": "soon"}'),
        (b'{"kind": "stop", "name": "x"}', b'{"version": 1}'),
        (b'{"kind": "run", "name": "y"}', b'{"version": 1, "sinks": 5}'),
        (b"[" * 100_000, b"x"),
    )
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([runs, NewTopic(name="tea", partitions=2), NewTopic(name="cake")])
        for key, value in (*unusable, run_record(RUN), run_record(DEAD)):
            producer.send(TOPIC, value, key=key, partition=0)
        for number in range(20):
            for topic in ("tea", "cake"):
                producer.send(topic, b'{"n": %d}' % number, timestamp=1_000 + number)
        producer.flush()


def test_runs_are_listed_with_sums_over_their_queries(console: ConsoleProcess) -> None:
    found = {each["name"]: each for each in console.api("/pipelines")["runs"]}
    run = found["orders/lake"]
    assert (run["rows_per_second"], run["lag"], run["batch_ms"], run["dead_letters"]) == (
        12.5,
        12,
        40,
        3,
    )
    assert (run["state"], run["is_alive"]) == ("running", True)
    assert (found["dead"]["state"], found["dead"]["is_alive"]) == ("died", False)


def test_hostile_states_are_shown_as_text(console: ConsoleProcess) -> None:
    for path in ("/pipelines", "/pipelines/orders%2Flake"):
        page = console.get(path)
        assert page.status == 200
        assert "<script>alert" not in page.text
        assert "alert(1)" in page.text


def test_stop_writes_a_request_that_the_run_understands(
    console: ConsoleProcess, broker: EmbeddedBroker
) -> None:
    assert console.post("/pipelines/dead/stop", {}).status == 409
    assert console.post("/pipelines/missing/stop", {}).status == 404
    stopped = console.post("/pipelines/orders%2Flake/stop", {})
    assert stopped.headers["location"] == "/pipelines/orders%2Flake?done=stop-requested"
    assert console.api("/pipelines/orders%2Flake")["run"]["is_stop_requested"]
    runs = PublishedRuns()
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        place = TopicPartition(TOPIC, 0)
        consumer.assign([place])
        consumer.seek_to_beginning([place])
        while not runs.is_stop_requested(RUN.name, RUN.started_ms):
            [*records] = consumer.poll(TIMEOUT_S)
            assert records
            for record in records:
                if b'"stop"' in (record.key or b"") and b"asked_ms" in (record.value or b""):
                    runs.replay(record.key, record.value)


def test_run_that_starts_again_is_followed(console: ConsoleProcess, broker: EmbeddedBroker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        again = replace(RUN, started_ms=NOW_MS, state="failed")
        key, value = run_record(again)
        producer.send(TOPIC, value, key=key, partition=0).result(TIMEOUT_S)
    run = console.api("/pipelines/orders%2Flake")["run"]
    assert (run["state"], run["is_stop_requested"]) == ("failed", False)


def test_messages_of_several_topics_are_in_order_of_time(console: ConsoleProcess) -> None:
    page_data = console.api("/messages?topic0=tea&topic3=cake&topic4=tea&limit=10")
    assert page_data["topics"] == ["tea", "cake"]
    found = [(each["topic"], each["record"]["timestamp_ms"]) for each in page_data["messages"]]
    assert found == [
        (topic, 1_000 + number) for number in range(19, 9, -1) for topic in ("cake", "tea")
    ]
    [one] = console.api("/messages?topic0=cake&filter=%22n%22:+7")["messages"]
    assert json.loads(one["record"]["value"]["text"]) == {"n": 7}
    assert console.get("/messages?topic0=missing").status == 404
    assert console.get("/messages?limit=101").status == 400


def test_schema_is_checked_and_registered(console: ConsoleProcess) -> None:
    made = console.post("/schemas", {"subject": "tea-value", "schema": TEA, "type": "AVRO"})
    assert made.headers["location"] == "/schemas/tea-value?done=schema-registered"
    wider = TEA.replace("]}", ',{"name":"cups","type":"int"}]}')
    refused = console.post("/schemas/tea-value", {"schema": wider, "type": "AVRO", "check": "1"})
    assert refused.status == 409
    assert "The schema is incompatible" in refused.text
    assert "cups" in refused.text
    fitting = wider.replace('"int"}', '"int","default":0}')
    checked = console.post("/schemas/tea-value", {"schema": fitting, "check": "1"})
    assert checked.status == 200
    assert "The schema is compatible. Nothing was registered." in checked.text
    assert console.api("/schemas/tea-value")["versions"] == [1]
    told = console.post_json("/schemas/tea-value", {"schema": fitting, "check": True})
    assert told.json == {"answer": "The schema is compatible. Nothing was registered."}
    assert console.post_json("/schemas/tea-value", {"schema": fitting}).status == 200
    assert console.api("/schemas/tea-value")["versions"] == [2, 1]
    for broken in ({"schema": "{"}, {"schema": TEA, "type": "XML"}, {"schema": ""}):
        assert 400 <= console.post("/schemas/tea-value", broken).status < 500


def test_compatibility_level_is_set(console: ConsoleProcess) -> None:
    console.post("/schemas", {"subject": "cake-value", "schema": TEA})
    done = console.post("/schemas/cake-value/compatibility", {"level": "NONE"})
    assert done.status == 303
    assert console.api("/schemas/cake-value")["compatibility"] == "NONE"
    assert console.post("/schemas/cake-value/compatibility", {"level": "SOME"}).status == 400
