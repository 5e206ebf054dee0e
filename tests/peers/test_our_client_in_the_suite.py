"""The suite that judges our broker by foreign clients, turned round: our client at Apache Kafka.

The tests themselves are those of `tests/compat`; here they meet other fixtures. What a reader would
get wrong: pytest takes each of the names below for a test of this module.
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


test_records_arrive_with_any_acknowledgement = (
    test_clients_producing.test_records_arrive_with_any_acknowledgement
)
test_an_idempotent_producer_is_served = test_clients_producing.test_an_idempotent_producer_is_served
test_two_idempotent_producers_do_not_disturb_each_other = (
    test_clients_producing.test_two_idempotent_producers_do_not_disturb_each_other
)
test_equal_keys_share_a_partition_and_keep_their_order = (
    test_clients_producing.test_equal_keys_share_a_partition_and_keep_their_order
)
test_a_message_that_is_too_large_is_refused_by_name = (
    test_clients_producing.test_a_message_that_is_too_large_is_refused_by_name
)
test_a_log_tells_where_it_begins_and_ends = (
    test_clients_reading.test_a_log_tells_where_it_begins_and_ends
)
test_an_offset_is_found_by_time = test_clients_reading.test_an_offset_is_found_by_time
test_a_reader_goes_where_it_seeks = test_clients_reading.test_a_reader_goes_where_it_seeks
test_a_paused_partition_gives_nothing_until_it_is_resumed = (
    test_clients_reading.test_a_paused_partition_gives_nothing_until_it_is_resumed
)
test_a_reader_out_of_range_may_begin_again = (
    test_clients_reading.test_a_reader_out_of_range_may_begin_again
)
test_a_reader_out_of_range_may_go_to_the_end = (
    test_clients_reading.test_a_reader_out_of_range_may_go_to_the_end
)
test_a_reader_out_of_range_that_was_told_nothing_hears_of_it = (
    test_clients_reading.test_a_reader_out_of_range_that_was_told_nothing_hears_of_it
)
test_all_partitions_get_their_turn = test_clients_reading.test_all_partitions_get_their_turn
test_each_of_several_partitions_is_read_in_order = (
    test_clients_reading.test_each_of_several_partitions_is_read_in_order
)
test_what_one_client_compresses_every_client_reads = (
    test_clients_records.test_what_one_client_compresses_every_client_reads
)
test_nothing_and_empty_stay_different = test_clients_records.test_nothing_and_empty_stay_different
test_headers_keep_order_repeats_and_bytes = (
    test_clients_records.test_headers_keep_order_repeats_and_bytes
)
test_a_header_may_have_no_value = test_clients_records.test_a_header_may_have_no_value
test_the_time_that_a_client_gives_is_kept = (
    test_clients_records.test_the_time_that_a_client_gives_is_kept
)
test_a_topic_may_have_the_time_of_arrival_instead = (
    test_clients_records.test_a_topic_may_have_the_time_of_arrival_instead
)
test_a_client_that_reads_only_what_is_committed_reads_plain_records = (
    test_clients_records.test_a_client_that_reads_only_what_is_committed_reads_plain_records
)
test_a_topic_is_made_listed_described_and_deleted = (
    test_clients_topics.test_a_topic_is_made_listed_described_and_deleted
)
test_a_topic_cannot_be_made_twice = test_clients_topics.test_a_topic_cannot_be_made_twice
test_what_is_not_there_is_unknown = test_clients_topics.test_what_is_not_there_is_unknown
test_a_topic_grows_and_its_new_partitions_serve = (
    test_clients_topics.test_a_topic_grows_and_its_new_partitions_serve
)


def test_committed_records_are_seen_and_aborted_ones_are_not(servers: str, topic: str) -> None:
    test_clients_transactions.test_committed_records_are_seen_and_aborted_ones_are_not(
        Headwater(), servers, topic
    )


def test_an_open_transaction_holds_back_whoever_reads_committed_records(
    servers: str, topic: str
) -> None:
    test_clients_transactions.test_an_open_transaction_holds_back_whoever_reads_committed_records(
        Headwater(), servers, topic
    )


def test_a_zombie_is_fenced(servers: str, topic: str) -> None:
    test_clients_transactions.test_a_zombie_is_fenced(Headwater(), servers, topic)


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_offsets_of_a_transaction_hold_with_it(servers: str, topic: str, is_commit: bool) -> None:
    test_clients_transactions.test_offsets_of_a_transaction_hold_with_it(
        Headwater(), servers, topic, is_commit
    )
