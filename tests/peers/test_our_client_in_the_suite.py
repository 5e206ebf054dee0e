"""Run the tests of `tests/compat` with Headwater's client against Apache Kafka.

Note: pytest collects each of the imported names below as a test of this module, with the fixtures
that are defined here.
"""

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.compat import (
    test_clients_producing,
    test_clients_reading,
    test_clients_records,
    test_clients_topics,
    test_clients_transactions,
)
from tests.compat.admins import OpenAdmin
from tests.compat.clients import Client
from tests.compat.headwater_admin import HeadwaterAdmin
from tests.compat.headwater_transactional import Headwater
from tests.compat.judges import OUR_CONSUMER, OUR_PRODUCER
from tests.peers.apache_kafka import ApacheKafka


@pytest.fixture
def servers(apache_kafka: ApacheKafka) -> str:
    return apache_kafka.bootstrap_servers


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=[OUR_PRODUCER, OUR_CONSUMER], ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    chosen: Client = request.param
    return chosen


@pytest.fixture
def admin(servers: str) -> Iterator[OpenAdmin]:
    with closing(HeadwaterAdmin(servers)) as chosen:
        yield chosen


test_records_arrive_with_any_acks = test_clients_producing.test_records_arrive_with_any_acks
test_idempotent_producer_is_served = test_clients_producing.test_idempotent_producer_is_served
test_two_idempotent_producers_do_not_disturb_each_other = (
    test_clients_producing.test_two_idempotent_producers_do_not_disturb_each_other
)
test_equal_keys_share_a_partition_and_keep_their_order = (
    test_clients_producing.test_equal_keys_share_a_partition_and_keep_their_order
)
test_message_too_large_is_rejected = test_clients_producing.test_message_too_large_is_rejected
test_beginning_and_end_offsets = test_clients_reading.test_beginning_and_end_offsets
test_offset_is_found_by_timestamp = test_clients_reading.test_offset_is_found_by_timestamp
test_consumer_continues_where_it_seeks = test_clients_reading.test_consumer_continues_where_it_seeks
test_paused_partition_returns_nothing_until_it_is_resumed = (
    test_clients_reading.test_paused_partition_returns_nothing_until_it_is_resumed
)
test_out_of_range_consumer_resets_to_earliest = (
    test_clients_reading.test_out_of_range_consumer_resets_to_earliest
)
test_out_of_range_consumer_resets_to_latest = (
    test_clients_reading.test_out_of_range_consumer_resets_to_latest
)
test_out_of_range_consumer_without_reset_gets_an_error = (
    test_clients_reading.test_out_of_range_consumer_without_reset_gets_an_error
)
test_all_partitions_are_served_in_turn = test_clients_reading.test_all_partitions_are_served_in_turn
test_each_of_several_partitions_is_read_in_order = (
    test_clients_reading.test_each_of_several_partitions_is_read_in_order
)
test_every_client_reads_what_one_client_compresses = (
    test_clients_records.test_every_client_reads_what_one_client_compresses
)
test_null_and_empty_stay_different = test_clients_records.test_null_and_empty_stay_different
test_headers_keep_order_duplicates_and_bytes = (
    test_clients_records.test_headers_keep_order_duplicates_and_bytes
)
test_header_may_have_a_null_value = test_clients_records.test_header_may_have_a_null_value
test_create_time_is_kept = test_clients_records.test_create_time_is_kept
test_topic_may_use_log_append_time = test_clients_records.test_topic_may_use_log_append_time
test_read_committed_consumer_reads_plain_records = (
    test_clients_records.test_read_committed_consumer_reads_plain_records
)
test_topic_is_created_listed_described_and_deleted = (
    test_clients_topics.test_topic_is_created_listed_described_and_deleted
)
test_topic_cannot_be_created_twice = test_clients_topics.test_topic_cannot_be_created_twice
test_missing_topic_is_unknown = test_clients_topics.test_missing_topic_is_unknown
test_topic_grows_and_its_new_partitions_are_served = (
    test_clients_topics.test_topic_grows_and_its_new_partitions_are_served
)


def test_committed_records_are_visible_and_aborted_ones_are_not(servers: str, topic: str) -> None:
    test_clients_transactions.test_committed_records_are_visible_and_aborted_ones_are_not(
        Headwater(), servers, topic
    )


def test_open_transaction_holds_back_read_committed_consumers(servers: str, topic: str) -> None:
    test_clients_transactions.test_open_transaction_holds_back_read_committed_consumers(
        Headwater(), servers, topic
    )


def test_zombie_is_fenced(servers: str, topic: str) -> None:
    test_clients_transactions.test_zombie_is_fenced(Headwater(), servers, topic)


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_transactional_offsets_are_committed_with_the_transaction(
    servers: str, topic: str, is_commit: bool
) -> None:
    test_clients_transactions.test_transactional_offsets_are_committed_with_the_transaction(
        Headwater(), servers, topic, is_commit
    )
