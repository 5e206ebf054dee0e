"""The overview of unhealthy clusters."""

import pytest

from headwater.client.admin.descriptions import (
    ClusterDescription,
    LogDir,
    ReplicaInfo,
    TopicDescription,
)
from headwater.client.network.bootstrap_addresses import BootstrapAddress
from headwater.client.network.cluster_metadata import BrokerNode, PartitionView
from headwater.common.ids import TopicPartition
from headwater.console.pages.frame import Frame
from headwater.console.pages.overview import overview_page
from headwater.console.views.charts import Charts
from headwater.console.views.cluster_view import ClusterView
from headwater.console.views.overview import Overview, overview

FRAME = Frame(
    bootstrap="a:9092", token="t", is_read_only=True, has_registry=False, query={}, version="v"
)


def partition(number: int, leader: int, isr: tuple[int, ...]) -> PartitionView:
    return PartitionView(partition=number, leader_id=leader, replicas=(1, 2, 3), isr=isr)


def page_data(*partitions: PartitionView, running: tuple[int, ...] = (1, 2, 3)) -> Overview:
    brokers = tuple(
        BrokerNode(node_id=each, address=BootstrapAddress("a", each)) for each in running
    )
    replica = ReplicaInfo(size_bytes=100, offset_lag=0, is_future=False)
    survey = ClusterView(
        description=ClusterDescription(cluster_id="c", controller_id=1, brokers=brokers),
        topics={"tea": TopicDescription(name="tea", partitions=partitions)},
        log_dirs={1: [LogDir(path="/data", replicas={TopicPartition("tea", 0): replica})]},
        log_dir_errors={2: "its disk has failed"},
    )
    return overview(
        survey,
        {},
        bootstrap="a:9092",
        version="0",
        charts=Charts(charts=()),
        is_read_only=True,
    )


def test_offline_partitions_come_first() -> None:
    found = page_data(partition(0, 1, (1, 2, 3)), partition(1, 1, (1,)), partition(2, -1, (3,)))
    assert (found.offline, found.under_replicated, found.partitions) == (1, 1, 3)
    assert [(each.partition, each.is_offline) for each in found.troubles] == [
        (2, True),
        (1, False),
    ]
    page = overview_page(found, FRAME)
    assert "1 partition is offline" in page


@pytest.mark.parametrize(
    ("isr", "text"),
    [((1, 2), "1 partition has replicas that are not in sync"), ((1, 2, 3), "online and in sync")],
)
def test_overview_reports_under_replicated_and_healthy_clusters(
    isr: tuple[int, ...], text: str
) -> None:
    assert text in overview_page(page_data(partition(0, 1, isr)), FRAME)


def test_broker_without_log_dirs_is_shown_without_a_size() -> None:
    found = page_data(partition(0, 1, (1, 2, 3)))
    assert [(each.log_bytes, each.complaint) for each in found.brokers] == [
        (100, None),
        (None, "its disk has failed"),
        (None, None),
    ]
    assert "its disk has failed" in overview_page(found, FRAME)


def test_list_of_unhealthy_partitions_is_limited_but_all_are_counted() -> None:
    found = page_data(*(partition(each, -1, ()) for each in range(150)))
    assert (found.offline, len(found.troubles)) == (150, 100)
    assert "And 50 more." in overview_page(found, FRAME)


def test_brokers_that_hold_replicas_but_are_gone_are_shown_as_missing() -> None:
    found = page_data(partition(0, 1, (1, 2)), running=(1, 2))
    assert [(each.id, each.is_missing, each.replicas) for each in found.brokers] == [
        (1, False, 1),
        (2, False, 1),
        (3, True, 1),
    ]
    page = overview_page(found, FRAME)
    assert "Broker 3 is not running, but should hold replicas." in page
    assert "/brokers/3" not in page
