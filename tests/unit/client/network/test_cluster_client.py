"""The cluster client with brokers that misbehave."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from headwater.client.errors import (
    ClientClosed,
    InvalidArgument,
    InvalidTopic,
    KafkaTimeout,
    NetworkException,
    UnsupportedVersion,
    error_for,
)
from headwater.client.network.cluster_client import GROUP, ClusterClient
from headwater.client.settings import ClientSettings, read_settings
from headwater.common.error_codes import ErrorCode
from headwater.network.system_clock import SystemClock, SystemRandom
from headwater.protocol.api_key import ApiKey
from headwater.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from tests.simulation.fakes.mock_broker import Fate, Garbage, HangUp, Instead, Stall, Usual
from tests.simulation.fakes.mock_cluster import MockCluster

TIMEOUT_MS = 30_000
# Long enough for a rejected connection, on a busy machine too.
SOON_MS = 2_000
T = TypeVar("T")


@asynccontextmanager
async def client(servers: str, **keywords: object) -> AsyncIterator[ClusterClient]:
    settings = read_settings(
        ClientSettings, {"bootstrap.servers": servers, "retry.backoff.ms": 1}, keywords
    )
    made = ClusterClient(asyncio.get_running_loop(), settings, SystemClock(), SystemRandom())
    try:
        yield made
    finally:
        made.close()


def ask(
    servers: str, question: Callable[[ClusterClient, int], Awaitable[T]], **keywords: object
) -> T:
    """One call on its own loop, with a generous deadline."""

    async def run() -> T:
        async with client(servers, **keywords) as made:
            return await question(made, made.clock.steady_ms() + TIMEOUT_MS)

    return asyncio.run(run())


async def tea(made: ClusterClient, deadline_ms: int) -> int:
    return len((await made.topic("tea", deadline_ms=deadline_ms)).partitions)


@pytest.mark.parametrize(
    "fate",
    [
        HangUp(),
        Garbage(),
        Garbage(b""),
        Stall(),
        Instead(lambda _: MetadataResponse()),
        Instead(
            lambda _: MetadataResponse(
                brokers=(MetadataResponseBroker(node_id=0, host="127.0.0.1", port=1),),
                topics=(
                    MetadataResponseTopic(name="tea", error_code=ErrorCode.LEADER_NOT_AVAILABLE),
                ),
            )
        ),
    ],
    ids=["hangs up", "garbage", "nothing", "stalls", "no brokers", "a wrong address"],
)
def test_metadata_is_retried_after_any_failure(fate: Fate) -> None:
    with MockCluster(topics={"tea": 3}) as cluster:
        cluster.script(ApiKey.METADATA, fate)
        assert ask(cluster.bootstrap_servers, tea, request_timeout_ms=1_000) == 3


def test_an_unreachable_bootstrap_server_is_skipped() -> None:
    with MockCluster(nodes=2, topics={"tea": 1}) as cluster:
        cluster.stop(0)
        assert ask(cluster.bootstrap_servers, tea) == 1


def test_a_missing_topic_is_awaited_until_the_deadline() -> None:
    async def soon(made: ClusterClient, _: int) -> None:
        await made.topic("coffee", deadline_ms=made.clock.steady_ms() + SOON_MS)

    with MockCluster() as cluster, pytest.raises(KafkaTimeout, match="UNKNOWN_TOPIC"):
        ask(cluster.bootstrap_servers, soon)


def test_an_invalid_topic_error_is_raised_at_once() -> None:
    bad = MetadataResponse(
        brokers=(MetadataResponseBroker(node_id=0, host="127.0.0.1", port=1),),
        topics=(MetadataResponseTopic(name="tea", error_code=ErrorCode.INVALID_TOPIC_EXCEPTION),),
    )
    with MockCluster() as cluster:
        cluster.script(ApiKey.METADATA, Instead(lambda _: bad))
        with pytest.raises(InvalidTopic):
            ask(cluster.bootstrap_servers, tea)


@pytest.mark.parametrize("name", [b"tea", None, 5, "", "green tea", "..", "t" * 250])
def test_an_invalid_topic_name_is_rejected_without_affecting_others(name: Any) -> None:
    """TO-1."""

    async def both(made: ClusterClient, deadline_ms: int) -> int:
        with pytest.raises(InvalidTopic):
            await made.topic(name, deadline_ms=deadline_ms)
        return await tea(made, deadline_ms)

    with MockCluster(topics={"tea": 3}) as cluster:
        assert ask(cluster.bootstrap_servers, both) == 3


@pytest.mark.parametrize("is_connected", [False, True])
def test_an_unencodable_metadata_request_does_not_stop_refreshes(
    is_connected: bool,
) -> None:
    unwritable: Any = b"tea"

    async def spoilt(made: ClusterClient, deadline_ms: int) -> int:
        if is_connected:
            await made.refresh(deadline_ms=deadline_ms)
        made.schedule.set_topics([unwritable], made.clock.steady_ms())
        with pytest.raises(KafkaTimeout, match="cannot encode Metadata request"):
            await made.refresh(deadline_ms=made.clock.steady_ms() + SOON_MS)
        made.schedule.set_topics([], made.clock.steady_ms())
        return await tea(made, deadline_ms)

    with MockCluster(topics={"tea": 3}) as cluster:
        assert ask(cluster.bootstrap_servers, spoilt) == 3


def test_an_unencodable_request_fails_and_the_connection_stays_open() -> None:
    async def wrong(made: ClusterClient, deadline_ms: int) -> int:
        key: Any = 5
        with pytest.raises(InvalidArgument, match="FindCoordinator"):
            await made.coordinator(GROUP, key, deadline_ms=deadline_ms)
        return await tea(made, deadline_ms)

    with MockCluster(topics={"tea": 3}) as cluster:
        assert ask(cluster.bootstrap_servers, wrong) == 3


def test_without_any_broker_the_deadline_ends_the_wait() -> None:
    async def soon(made: ClusterClient, _: int) -> None:
        await made.topic("tea", deadline_ms=made.clock.steady_ms() + SOON_MS)

    with MockCluster() as cluster:
        servers = cluster.bootstrap_servers
        cluster.stop(0)
        with pytest.raises(KafkaTimeout, match="cannot connect"):
            ask(servers, soon)


def test_a_cluster_that_moved_is_found_with_the_bootstrap_servers() -> None:
    """KIP-899: all known brokers are gone, the bootstrap servers answer again."""
    elsewhere = MetadataResponse(
        brokers=(MetadataResponseBroker(node_id=5, host="127.0.0.1", port=1),),
        topics=(MetadataResponseTopic(name="tea", error_code=ErrorCode.LEADER_NOT_AVAILABLE),),
    )
    with MockCluster(topics={"tea": 1}) as cluster:
        cluster.script(ApiKey.METADATA, Instead(lambda _: elsewhere))
        assert ask(cluster.bootstrap_servers, tea) == 1


def test_an_older_broker_gets_requests_in_its_version() -> None:
    with MockCluster(topics={"tea": 2}) as cluster:
        cluster.brokers[0].newest = {ApiKey.METADATA: 4, ApiKey.API_VERSIONS: 2}
        assert ask(cluster.bootstrap_servers, tea) == 2


def test_an_unsupported_api_is_named() -> None:
    async def find(made: ClusterClient, deadline_ms: int) -> int:
        return await made.coordinator(GROUP, "g", deadline_ms=deadline_ms)

    with MockCluster() as cluster:
        cluster.brokers[0].newest = {ApiKey.FIND_COORDINATOR: -1}
        with pytest.raises(UnsupportedVersion):
            ask(cluster.bootstrap_servers, find)


def test_the_coordinator_lookup_is_retried() -> None:
    def refusal(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        (key,) = request.coordinator_keys
        return FindCoordinatorResponse(
            coordinators=(Coordinator(key=key, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),)
        )

    with MockCluster(nodes=2) as cluster:
        cluster.coordinator_id = 1
        for node_id in (0, 1):
            cluster.script(
                ApiKey.FIND_COORDINATOR, Instead(refusal), HangUp(), Garbage(), node_id=node_id
            )
        found = ask(
            cluster.bootstrap_servers,
            lambda made, deadline_ms: made.coordinator(GROUP, "g", deadline_ms=deadline_ms),
        )
    assert found == 1


class FastClock(SystemClock):
    """Ten times as fast, so that a wait of seconds takes tenths of seconds."""

    def steady_ms(self) -> int:
        return super().steady_ms() * 10


def test_a_missing_coordinator_is_logged_once_and_raised_at_the_deadline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refusal(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        (key,) = request.coordinator_keys
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return FindCoordinatorResponse(
            coordinators=(Coordinator(key=key, error_code=code, error_message="too few brokers"),)
        )

    async def find(servers: str) -> None:
        texts = {"bootstrap.servers": servers, "retry.backoff.ms": 1, "retry.backoff.max.ms": 10}
        clock = FastClock()
        loop = asyncio.get_running_loop()
        made = ClusterClient(loop, read_settings(ClientSettings, texts, {}), clock, SystemRandom())
        try:
            await made.coordinator(GROUP, "g", deadline_ms=clock.steady_ms() + 20_000)
        finally:
            made.close()

    with MockCluster() as cluster:
        cluster.script(ApiKey.FIND_COORDINATOR, *[Instead(refusal)] * 10_000)
        with pytest.raises(KafkaTimeout, match="too few brokers"):
            asyncio.run(find(cluster.bootstrap_servers))
    assert [each.message for each in caplog.records] == [
        "Coordinator not available: group=g reason=too few brokers"
    ]


def test_a_lost_request_fails_and_is_not_repeated() -> None:
    async def call(made: ClusterClient, deadline_ms: int) -> None:
        await made.topic("tea", deadline_ms=deadline_ms)
        await made.call(0, MetadataRequest(topics=()), MetadataResponse)

    with MockCluster(topics={"tea": 1}) as cluster:
        cluster.script(ApiKey.METADATA, Usual(), HangUp())
        with pytest.raises(NetworkException):
            ask(cluster.bootstrap_servers, call)
        assert len(cluster.requests(ApiKey.METADATA)) == 2


def test_close_fails_waiting_calls() -> None:
    async def run() -> None:
        with MockCluster() as cluster:
            cluster.script(ApiKey.METADATA, Stall())
            async with client(cluster.bootstrap_servers) as made:
                deadline_ms = made.clock.steady_ms() + TIMEOUT_MS
                waiting = asyncio.ensure_future(made.topic("tea", deadline_ms=deadline_ms))
                await asyncio.to_thread(cluster.brokers[0].await_requests, ApiKey.METADATA)
                made.close()
                with pytest.raises(ClientClosed):
                    await waiting
                with pytest.raises(ClientClosed):
                    made.connection(0)

    asyncio.run(run())


def test_every_error_code_has_an_exception_of_its_name() -> None:
    for code in ErrorCode:
        if code is not ErrorCode.NONE:
            error = error_for(code)
            assert error.code is code
            assert error.is_retriable == code.is_retriable
    assert type(error_for(ErrorCode.DUPLICATE_VOTER)).__name__ == "DuplicateVoter"
