"""A run's state in a topic, published while the run goes on."""

import threading
import time
from collections.abc import Iterator

import pytest

from headwater.client.errors import TopicAuthorizationFailed
from headwater.pipelines.run.run_files import RunReport
from headwater.pipelines.run.run_publisher import RunPublisher
from headwater.pipelines.run.run_records import PublishedRun
from headwater.pipelines.run.run_topic import RunTopic
from headwater.testing import EmbeddedBroker

DEADLINE_S = 60


@pytest.fixture(scope="module")
def client() -> Iterator[dict[str, str]]:
    with EmbeddedBroker() as broker:
        yield {"bootstrap.servers": broker.bootstrap_servers}


def _report(name: str, state: str) -> RunReport:
    return RunReport(name=name, file="/p.yaml", pid=1, started_ms=7, told_ms=8, state=state)


def _publisher(client: dict[str, str], asked: threading.Event) -> RunPublisher:
    return RunPublisher(
        client, request_stop=asked.set, steady_ms=lambda: time.monotonic_ns() // 1_000_000
    )


def _await(topic: RunTopic, name: str) -> PublishedRun:
    until_s = time.monotonic() + DEADLINE_S
    while name not in topic.refresh().runs:
        assert time.monotonic() < until_s
    return topic.runs.runs[name]


def test_a_request_from_elsewhere_stops_the_run(client: dict[str, str]) -> None:
    asked = threading.Event()
    with _publisher(client, asked) as publisher, RunTopic(client) as elsewhere:
        publisher.publish(_report("orders", "running"))
        seen = _await(elsewhere, "orders")
        assert not asked.is_set()
        elsewhere.request_stop(seen, now_ms=9)
        assert asked.wait(DEADLINE_S)


def test_the_last_state_is_published_before_the_run_ends(client: dict[str, str]) -> None:
    with _publisher(client, threading.Event()) as publisher:
        publisher.publish(_report("short", "starting"))
        publisher.publish(_report("short", "finished"))
    with RunTopic(client) as elsewhere:
        assert elsewhere.refresh().runs["short"].state == "finished"


def test_a_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    attempts: list[object] = []
    attempted = threading.Event()

    def refuse(client: object) -> RunTopic:
        attempts.append(client)
        attempted.set()
        raise TopicAuthorizationFailed("__headwater_pipeline_runs: not authorized")

    publisher = RunPublisher({}, request_stop=attempted.set, steady_ms=lambda: 0, open_topic=refuse)
    with publisher:
        for state in ("starting", "running", "failed"):
            attempted.clear()
            publisher.publish(_report("orders", state))
            assert attempted.wait(DEADLINE_S)
    assert len(attempts) >= 3
    assert [each.message for each in caplog.records] == [
        "Could not publish the state of the run: error=__headwater_pipeline_runs: not authorized"
    ]
