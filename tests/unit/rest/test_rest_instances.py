"""Consumer instances against a broker: rebalances, expiry, shutdown."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headwater.client import Admin
from headwater.testing import EmbeddedBroker
from tests.rest_server import JSON, TIMEOUT_S, RestServer


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"group.initial.rebalance.delay.ms": 0}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("tea", partitions=4)
        yield broker


@pytest.fixture(scope="module")
def admin(broker: EmbeddedBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture(scope="module")
def rest(broker: EmbeddedBroker) -> Iterator[RestServer]:
    settings = {"consumer.request.timeout.ms": "300", "consumer.heartbeat.interval.ms": "200"}
    with RestServer(broker.bootstrap_servers, settings) as rest:
        yield rest


def await_that(is_so: Callable[[], Any]) -> None:
    """Each call asks a server, so this does not spin."""
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline


def join(rest: RestServer, group: str, name: str, **settings: str) -> str:
    body = {"name": name, "format": "json", "auto.offset.reset": "earliest", **settings}
    assert rest.post(f"/consumers/{group}", body).status == 200
    path = f"/consumers/{group}/instances/{name}"
    assert rest.post(f"{path}/subscription", {"topics": ["tea"]}).status == 204
    return path


def owned(rest: RestServer, path: str) -> set[int]:
    """The partitions of an instance; reading takes part in the rebalance."""
    rest.get(f"{path}/records?timeout=100")
    return {each["partition"] for each in rest.get(f"{path}/assignments").json["partitions"]}


def test_partitions_move_between_instances(rest: RestServer) -> None:
    first = join(rest, "movers", "first")
    await_that(lambda: owned(rest, first) == {0, 1, 2, 3})
    second = join(rest, "movers", "second")
    shares: list[set[int]] = []

    def are_shared() -> bool:
        shares[:] = [owned(rest, first), owned(rest, second)]
        return [len(each) for each in shares] == [2, 2]

    await_that(are_shared)
    assert shares[0] | shares[1] == {0, 1, 2, 3}
    assert rest.ask("DELETE", first).status == 204
    await_that(lambda: owned(rest, second) == {0, 1, 2, 3})
    assert rest.ask("DELETE", second).status == 204


def test_records_are_read_once_by_a_group_that_rebalances(rest: RestServer) -> None:
    values = list(range(200))
    body = {"records": [{"value": each, "partition": each % 4} for each in values]}
    assert rest.post("/topics/tea", body, content_type=JSON).status == 200
    paths = [join(rest, "readers", "a", **{"auto.commit.enable": "false"})]
    found: list[int] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < len(values):
        assert time.monotonic() < deadline
        if len(found) >= 50 and len(paths) == 1:
            paths.append(join(rest, "readers", "b", **{"auto.commit.enable": "false"}))
        for path in paths:
            answer = rest.get(f"{path}/records?timeout=100&max_bytes=30")
            found += [each["value"] for each in answer.json]
            assert rest.post(f"{path}/offsets").status == 200, rest.log_text
    assert sorted(found) == values
    for path in paths:
        assert rest.ask("DELETE", path).status == 204


def test_auto_commit_does_not_cover_records_that_were_not_returned(rest: RestServer) -> None:
    body = {"records": [{"value": each, "partition": 0} for each in range(10)]}
    assert rest.post("/topics/halves", body, content_type=JSON).status == 200
    settings = {"name": "h", "format": "json", "auto.offset.reset": "earliest"}
    path = "/consumers/halves/instances/h"
    found: list[int] = []
    for _ in range(2):
        assert rest.post("/consumers/halves", settings).status == 200
        assert rest.post(f"{path}/subscription", {"topics": ["halves"]}).status == 204
        while not (answer := rest.get(f"{path}/records?max_bytes=5")).json:
            assert answer.status == 200
        found += [each["value"] for each in answer.json]
        assert rest.ask("DELETE", path).status == 204
    assert found == list(range(10))


def test_unused_instance_expires_and_leaves_its_group(broker: EmbeddedBroker, admin: Admin) -> None:
    settings = {"consumer.instance.timeout.ms": "2000", "consumer.request.timeout.ms": "300"}
    with RestServer(broker.bootstrap_servers, settings) as rest:
        path = join(rest, "gone", "client")
        await_that(lambda: owned(rest, path) == {0, 1, 2, 3})
        assert len(admin.describe_groups(["gone"])["gone"].members) == 1
        await_that(lambda: not admin.describe_groups(["gone"])["gone"].members)
        assert rest.get(f"{path}/records").error_code == (404, 40403)
        assert "Consumer instance expired: group='gone' instance='client'" in rest.log_text
        # The name is free again.
        assert rest.post("/consumers/gone", {"name": "client"}).status == 200


def test_stopping_the_server_leaves_groups_at_once(broker: EmbeddedBroker, admin: Admin) -> None:
    with RestServer(broker.bootstrap_servers) as rest:
        path = join(rest, "stopped", "client")
        await_that(lambda: owned(rest, path) == {0, 1, 2, 3})
        rest.stop()
        assert not admin.describe_groups(["stopped"])["stopped"].members


def test_server_answers_without_a_cluster_and_recovers() -> None:
    with EmbeddedBroker() as broker, RestServer(broker.bootstrap_servers) as rest:
        assert rest.get("/topics").status == 200
        broker.stop()
        answer = rest.get("/brokers")
        assert (answer.status, answer.json["error_code"]) == (500, 50003)
        broker.start()
        await_that(lambda: rest.get("/brokers").status == 200)
