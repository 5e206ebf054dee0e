"""The console with many partitions: 20,000 on a real broker, 100,000 of a fake admin client.

Prints the time of each page; asserts that each is answered, with the right numbers.
"""

import asyncio
from collections.abc import Iterator
from time import perf_counter

import pytest

from headwater.client import Admin, NewTopic
from headwater.client.admin.descriptions import (
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    FeatureRange,
    GroupListing,
    LogDir,
    ReplicaInfo,
    TopicDescription,
)
from headwater.client.aio import Admin as AioAdmin
from headwater.client.consumer.offset_requests import OffsetAndTimestamp
from headwater.client.network.bootstrap_addresses import BootstrapAddress
from headwater.client.network.cluster_metadata import BrokerNode, PartitionView
from headwater.common.ids import TopicPartition
from headwater.console.history.sampler import Sampler
from headwater.console.pages.frame import Frame
from headwater.console.pages.overview import overview_page
from headwater.console.pages.topics import topics_page
from headwater.console.views.charts import overview_charts
from headwater.console.views.cluster_view import CachedView, ClusterView, cluster_view
from headwater.console.views.overview import overview
from headwater.console.views.topics import topic_list
from headwater.network.system_clock import SystemClock
from headwater.testing import EmbeddedBroker
from tests.console_process import ConsoleProcess

pytestmark = pytest.mark.slow

FRAME = Frame(
    bootstrap="a:9092", token="t", is_read_only=True, has_registry=False, query={}, version="v"
)
PARTITIONS = 100
TIMEOUT_S = 300


class FakeAdmin(AioAdmin):
    """An admin client of a cluster with 1,000 topics of 100 partitions, three replicas each."""

    def __init__(self) -> None:
        partitions = tuple(
            PartitionView(
                partition=each,
                leader_id=each % 3,
                replicas=(each % 3, (each + 1) % 3, (each + 2) % 3),
                isr=(each % 3, (each + 1) % 3, (each + 2) % 3),
            )
            for each in range(PARTITIONS)
        )
        self.topics = {
            name: TopicDescription(name=name, partitions=partitions)
            for name in (f"topic-{each:04}" for each in range(1_000))
        }
        info = ReplicaInfo(size_bytes=1_000, offset_lag=0, is_future=False)
        places = [TopicPartition(name, each) for name in self.topics for each in range(PARTITIONS)]
        self.log_dirs = [LogDir(path="/data", replicas=dict.fromkeys(places, info))]
        self.end = 0

    async def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        del timeout
        nodes = tuple(
            BrokerNode(node_id=each, address=BootstrapAddress("a", 9092)) for each in range(3)
        )
        return ClusterDescription(cluster_id="c", controller_id=0, brokers=nodes)

    async def describe_features(self, *, timeout: float | None = None) -> dict[str, FeatureRange]:
        del timeout
        return {}

    async def list_topics(self, **_: object) -> list[str]:
        return list(self.topics)

    async def describe_topics(self, *_: object, **__: object) -> dict[str, TopicDescription]:
        return dict(self.topics)

    async def describe_log_dirs(
        self, broker_ids: object = None, **_: object
    ) -> dict[int, list[LogDir]]:
        assert isinstance(broker_ids, list)
        return {broker_ids[0]: self.log_dirs}

    async def describe_configs(
        self, *_: object, **__: object
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        return {ConfigResource.broker(each): {} for each in range(3)}

    async def list_groups(self, **_: object) -> list[GroupListing]:
        return []

    async def list_offsets(
        self, timestamps: object, **_: object
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        assert isinstance(timestamps, dict)
        self.end += 1
        return {each: OffsetAndTimestamp(self.end, -1, -1) for each in timestamps}


def test_hundred_thousand_partitions_of_a_fake_admin_client(
    capsys: pytest.CaptureFixture[str],
) -> None:
    admin, clock = FakeAdmin(), SystemClock()
    times: dict[str, float] = {}

    async def pages() -> tuple[str, str]:
        views = CachedView(lambda: cluster_view(admin), clock, fresh_ms=60_000)
        sampler = Sampler(admin, views, clock)
        for name in ("first sample", "next sample"):
            started = perf_counter()
            await sampler.sample()
            times[name] = perf_counter() - started
        cluster: ClusterView = await views.get()
        started = perf_counter()
        charts = overview_charts(sampler.history, problems={}, has_metrics=False, groups_left_out=0)
        page_data = overview(
            cluster, {}, bootstrap="a", version="0", charts=charts, is_read_only=True
        )
        first = overview_page(page_data, FRAME)
        times["overview"] = perf_counter() - started
        started = perf_counter()
        listed = await topic_list(
            admin, cluster, search="", sort="size", with_internal=False, page=3, size=50
        )
        second = topics_page(listed, FRAME)
        times["topics"] = perf_counter() - started
        return first, second

    first, second = asyncio.run(pages())
    with capsys.disabled():
        for name, took_s in times.items():
            print(f"  100,000 partitions: {name}: {took_s * 1000:.0f} ms")
    assert "100\N{NARROW NO-BREAK SPACE}000" in first
    assert "topic-0100" in second


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(timeout_s=TIMEOUT_S) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for each in range(200):
                topic = NewTopic(name=f"topic-{each:03}", partitions=PARTITIONS)
                admin.create_topics([topic], timeout=TIMEOUT_S)
        yield broker


def test_twenty_thousand_partitions_of_a_real_broker(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    times: dict[str, float] = {}
    with ConsoleProcess(broker.bootstrap_servers) as console:
        for path in ("/", "/topics", "/topics?sort=size&page=4", "/topics/topic-007", "/brokers",
                     "/groups", "/topics/topic-007/records", "/"):  # fmt: skip
            started = perf_counter()
            answer = console.get(path)
            times[path if path not in times else f"{path} again"] = perf_counter() - started
            assert answer.status == 200, answer.text
        overview_data = console.api("/overview")
    with capsys.disabled():
        for path, took_s in times.items():
            print(f"  20,000 partitions: {path}: {took_s * 1000:.0f} ms")
    assert overview_data["partitions"] == 20_000
    assert overview_data["offline"] == 0
