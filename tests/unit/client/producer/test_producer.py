"""The producer with a scripted cluster, without serious faults."""

import threading

import pandas  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

from headwater.client import Producer
from headwater.client.errors import (
    BufferExhausted,
    ClientClosed,
    InvalidArgument,
    InvalidPartitions,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTopic,
    KafkaTimeout,
    MessageTooLarge,
    SerializationFailed,
)
from headwater.client.producer.interceptors import ProducerRecord
from headwater.client.producer.record_future import RecordFuture
from headwater.client.producer.tables.table_input import TableLike
from headwater.common.exceptions import InvalidSetting
from headwater.protocol.api_key import ApiKey
from headwater.records.kernel import murmur2
from tests.simulation.fakes.mock_broker import TIMEOUT_S, Stall
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.labs.producer_faces import Face, OpenProducer


def values(cluster: MockCluster, topic: str = "tea", partition: int = 0) -> list[bytes | None]:
    return [record.value for record in cluster.topics[topic][partition].records]


def test_a_record_arrives_with_all_its_fields(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 2}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        future = producer.send(
            "tea",
            b"green",
            key=b"kind",
            partition=1,
            timestamp=1234,
            headers=[("a", b"1"), ("a", None)],
        )
        assert producer.result(future) == ("tea", 1, 0, 1234)
        (record,) = cluster.topics["tea"][1].records
    assert (record.key, record.value, record.timestamp) == (b"kind", b"green", 1234)
    assert record.headers == (("a", b"1"), ("a", None))


def test_records_of_a_batch_get_offsets_in_the_order_of_sending(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        futures = [producer.send("tea", b"%d" % number) for number in range(500)]
        assert [producer.result(future).offset for future in futures] == list(range(500))
        assert values(cluster) == [b"%d" % number for number in range(500)]


def test_a_key_chooses_the_partition_as_in_kafka(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 7}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        for key in (b"a", b"kafka", b"", b"0123456789abcdef"):
            where = producer.result(producer.send("tea", b"", key=key))
            assert where.partition == (murmur2(key) & 0x7FFFFFFF) % 7


def test_records_without_a_key_fill_a_batch_of_one_partition_first(
    open_producer: OpenProducer,
) -> None:
    """KIP-480."""
    with MockCluster(topics={"tea": 8}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers, batch_size=1_000, linger_ms=30_000
        )
        for _ in range(400):
            producer.send("tea", bytes(90))
        producer.do("flush", TIMEOUT_S)
        counts = [len(each.headers) for each in cluster.topics["tea"]]
        sizes = [header.record_count for each in cluster.topics["tea"] for header in each.headers]
    assert sum(sizes) == 400
    assert sum(counts) < 60
    assert sum(count > 0 for count in counts) > 2


def test_a_custom_partitioner_chooses_the_partition(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 3}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers,
            partitioner_class=lambda *seen: seen[-1] - 1,
        )
        assert producer.result(producer.send("tea", b"", key=b"k")).partition == 2


def test_a_partition_chosen_out_of_range_is_rejected(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 3}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers,
            partitioner_class=lambda *seen: seen[-1],
        )
        with pytest.raises(InvalidPartitions):
            producer.send("tea", b"")


def test_round_robin_takes_partitions_in_turn(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 3}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers, partitioner_class="round_robin"
        )
        futures = [producer.send("tea", b"", key=b"same") for _ in range(6)]
        assert [producer.result(each).partition for each in futures] == [0, 1, 2, 0, 1, 2]


def test_serializers_are_applied_except_to_none(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers,
            key_serializer="str",
            value_serializer="json",
        )
        producer.result(producer.send("tea", {"kind": "grün"}, key=7))
        producer.result(producer.send("tea", None, key=8))
        with pytest.raises(SerializationFailed):
            producer.send("tea", object())
        records = cluster.topics["tea"][0].records
    assert [(record.key, record.value) for record in records] == [
        (b"7", '{"kind":"grün"}'.encode()),
        (b"8", None),
    ]


@pytest.mark.parametrize("setting", ["key_serializer", "value_serializer"])
def test_a_serializer_that_does_not_return_bytes_is_named(
    open_producer: OpenProducer, setting: str
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(
            **{"bootstrap_servers": cluster.bootstrap_servers, setting: lambda given: given}
        )
        name = setting.replace("_", ".")
        for wrong in ("green", 5):
            with pytest.raises(
                SerializationFailed, match=f"{name} must return bytes, not {wrong!r}"
            ):
                producer.send("tea", wrong, key=wrong)
        for right in (b"green", bytearray(b"green"), memoryview(b"green")):
            producer.result(producer.send("tea", right, key=right))
        records = cluster.topics["tea"][0].records
    assert [(record.key, record.value) for record in records] == [(b"green", b"green")] * 3


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_arrive(open_producer: OpenProducer, codec: str) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers, compression_type=codec
        )
        sent = [b"leaf %d " % number * 20 for number in range(300)]
        for value in sent:
            producer.send("tea", value)
        producer.do("flush", TIMEOUT_S)
        assert values(cluster) == sent
        assert {header.codec.name.lower() for header in cluster.topics["tea"][0].headers} == {codec}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks_are_sent_as_configured(open_producer: OpenProducer, acks: str) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers, acks=acks)
        where = producer.result(producer.send("tea", b"green"))
        assert where.offset == (-1 if acks == "0" else 0)
        cluster.brokers[0].await_requests(ApiKey.PRODUCE)
        (request,) = cluster.requests(ApiKey.PRODUCE)
        assert request.acks == {"0": 0, "1": 1, "all": -1}[acks]


def test_callbacks_run_and_a_failing_one_does_not_stop_others() -> None:
    called: list[int] = []
    everyone = threading.Event()

    def bad(_: RecordFuture) -> None:
        called.append(-1)
        raise RuntimeError("a user's mistake")

    def good(future: RecordFuture) -> None:
        called.append(future.result(0).offset)
        everyone.set()

    with (
        MockCluster(topics={"tea": 1}) as cluster,
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        producer.send("tea", b"", on_delivery=bad)
        future = producer.send("tea", b"", on_delivery=good)
        assert everyone.wait(TIMEOUT_S)
        # A callback added after completion is called at once.
        future.add_done_callback(lambda done: called.append(done.result(0).offset))
    assert called == [-1, 1, 1]


def test_a_callback_that_waits_for_its_producer_fails() -> None:
    caught: list[Exception] = []
    done = threading.Event()

    with (
        MockCluster(topics={"tea": 1}) as cluster,
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):

        def wait(_: RecordFuture) -> None:
            try:
                producer.flush()
            except ClientClosed as error:
                caught.append(error)
            done.set()

        producer.send("tea", b"", on_delivery=wait)
        assert done.wait(TIMEOUT_S)
    assert len(caught) == 1


def test_interceptors_see_records_and_their_results(open_producer: OpenProducer) -> None:
    seen: list[tuple[str, object]] = []

    class Watch:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            seen.append(("send", record.value))
            return ProducerRecord(topic=record.topic, value=record.value + b"!")

        def on_acknowledgement(self, future: RecordFuture) -> None:
            seen.append(("done", future.result(0).offset))

    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers, interceptor_classes=[Watch()]
        )
        producer.result(producer.send("tea", b"green"))
        producer.do("flush", TIMEOUT_S)
        assert values(cluster) == [b"green!"]
    assert seen == [("send", b"green"), ("done", 0)]


def test_a_failing_interceptor_does_not_stop_records_or_other_interceptors(
    open_producer: OpenProducer, caplog: pytest.LogCaptureFixture
) -> None:
    acknowledged: list[int] = []

    class Broken:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise RuntimeError(f"mine, with {record.topic}")

        def on_acknowledgement(self, future: RecordFuture) -> None:
            raise RuntimeError(f"mine, with {future.result(0).topic}")

    class Forgetful:
        def on_send(self, record: ProducerRecord) -> None:
            """A change that is not returned."""

    class Working:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord(topic=record.topic, value=record.value + b"!")

        def on_acknowledgement(self, future: RecordFuture) -> None:
            acknowledged.append(future.result(0).offset)

    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers,
            interceptor_classes=[Broken(), Forgetful(), Working()],
        )
        producer.result(producer.send("tea", b"green"))
        producer.close(TIMEOUT_S)
        assert values(cluster) == [b"green!"]
    assert acknowledged == [0]
    assert "did not return a record: method=on_send got=None" in caplog.text
    assert caplog.text.count("RuntimeError: mine, with tea") == 2


def test_a_record_larger_than_max_request_size_is_rejected(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers, max_request_size=1_000
        )
        with pytest.raises(MessageTooLarge):
            producer.send("tea", bytes(1_000))
        # The producer still works.
        producer.result(producer.send("tea", b"small"))


def test_a_value_that_is_not_bytes_is_rejected_without_taking_memory(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        before = producer.do("metrics")["buffer-available-bytes"]
        for key, value in ((None, "text"), ("text", b""), (None, 5), (5, b"")):
            with pytest.raises(InvalidArgument, match=r"must be bytes, not .*; .*.serializer"):
                producer.send("tea", value, key=key)
        with pytest.raises(InvalidTimestamp):
            producer.send("tea", b"", timestamp=-1)
        assert producer.do("metrics")["buffer-available-bytes"] == before
        producer.result(producer.send("tea", b"green"))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"timestamp": 1_763_000_000.5}, "milliseconds.*integer.*1763000000.5"),
        ({"timestamp": "now"}, "milliseconds.*integer.*'now'"),
        ({"partition": "0"}, "a partition must be an integer, not '0'"),
        ({"partition": 0.0}, "a partition must be an integer, not 0.0"),
        ({"headers": {"a": "b"}}, "the value of header 'a' must be bytes, not 'b'"),
        ({"headers": [(b"a", b"b")]}, "a pair of str and bytes"),
        ({"headers": [("a", b"b", b"c")]}, "a pair of str and bytes"),
        ({"headers": 5}, "headers must be pairs, not 5"),
    ],
)
def test_invalid_record_fields_are_named(
    open_producer: OpenProducer, wrong: dict[str, object], words: str
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        with pytest.raises(InvalidArgument, match=words) as told:
            producer.send("tea", b"green", **wrong)
        assert told.value.__suppress_context__ or told.value.__context__ is None
        # As the first record of a topic, and as a later one.
        producer.result(producer.send("tea", b"green", headers={"a": b"b"}))
        with pytest.raises(InvalidArgument, match=words):
            producer.send("tea", b"green", **wrong)


def test_an_invalid_header_from_a_generator_is_named(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        with pytest.raises(InvalidArgument, match="header 'b' must be bytes, not 'c'") as told:
            producer.send("tea", b"green", headers=((name, "c") for name in ("b",)))
        assert told.value.__suppress_context__


@pytest.mark.parametrize("chosen", [None, "0", 0.0, 1, -1])
def test_an_invalid_choice_of_a_partitioner_is_named(
    open_producer: OpenProducer, chosen: object
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers, partitioner_class=lambda *_: chosen
        )
        with pytest.raises(InvalidPartitions, match=f"chose {chosen!r} for tea, which has"):
            producer.send("tea", b"green")


def test_an_integer_of_another_type_is_a_timestamp(open_producer: OpenProducer) -> None:
    class Milliseconds:
        def __index__(self) -> int:
            return 1234

    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        future = producer.send("tea", b"green", timestamp=Milliseconds())
        assert producer.result(future).timestamp == 1234


def test_an_exception_of_a_partitioner_is_raised_unchanged(open_producer: OpenProducer) -> None:
    def choose(*_: object) -> int:
        raise TypeError("mine")

    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers, partitioner_class=choose
        )
        with pytest.raises(TypeError, match=r"^mine$"):
            producer.send("tea", b"green")


def test_metadata_of_a_used_topic_is_refreshed(
    open_producer: OpenProducer,
) -> None:
    """Otherwise a leader that moves after metadata.max.idle.ms would never be found."""
    with MockCluster(nodes=2, topics={"tea": 1, "coffee": 1}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers,
            metadata_max_idle_ms=60_000,
            metadata_max_age_ms=20,
        )
        producer.result(producer.send("coffee", b"black"))
        # Set the last use back in time instead of waiting.
        used_ms = producer.engine.cluster.schedule._used_ms
        used_ms.update({"tea": -100_000, "coffee": -100_000})
        producer.result(producer.send("coffee", b"white"))
        cluster.on_loop(lambda: cluster.move_leader("coffee", 0, 1))
        assert producer.result(producer.send("coffee", b"red")).offset == 2
        assert producer.engine.cluster.schedule.topics == ["coffee"]


def test_a_record_larger_than_batch_size_gets_its_own_batch(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers, batch_size=100)
        sent = [b"a", bytes(5_000), b"b"]
        for value in sent:
            producer.send("tea", value)
        producer.do("flush", TIMEOUT_S)
        assert values(cluster) == sent


def test_full_memory_blocks_for_at_most_max_block_ms(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        cluster.script(ApiKey.PRODUCE, *[Stall()] * 100)
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers,
            buffer_memory=40_000,
            max_block_ms=2_000,
            batch_size=10_000,
        )
        taken = []

        def fill() -> None:
            for _ in range(100):
                taken.append(producer.send("tea", bytes(1_000)))  # noqa: PERF401

        with pytest.raises(BufferExhausted):
            fill()
        assert 0 < len(taken) < 45


LARGE = 600_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("send", bytes(LARGE)),
        ("send_table", pa.table({"value": [bytes(LARGE)]})),
    ],
)
def test_insufficient_free_memory_blocks_for_at_most_max_block_ms(
    open_producer: OpenProducer, name: str, content: object
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers,
            buffer_memory=1_000_000,
            max_block_ms=500,
            linger_ms=0,
            # The record before fails then, and would release memory.
            request_timeout_ms=4_000,
            delivery_timeout_ms=4_000,
        )
        producer.result(producer.send("tea", b"first"))
        cluster.script(ApiKey.PRODUCE, Stall())
        producer.send("tea", bytes(500_000))
        with pytest.raises(BufferExhausted):
            producer.do(name, "tea", content)


def test_a_record_is_sent_when_enough_memory_is_free(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers, buffer_memory=1_000_000
        )
        futures = [producer.send("tea", bytes(LARGE)) for _ in range(4)]
        assert [producer.result(future).offset for future in futures] == [0, 1, 2, 3]


def test_freed_memory_unblocks_callers(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers, buffer_memory=40_000, batch_size=10_000
        )
        for number in range(1_000):
            producer.send("tea", b"%d" % number * 300)
        producer.do("flush", TIMEOUT_S)
        assert len(values(cluster)) == 1_000
        assert producer.do("metrics")["buffer-available-bytes"] == 40_000


def test_a_missing_topic_times_out(open_producer: OpenProducer) -> None:
    with MockCluster() as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers, max_block_ms=2_000)
        with pytest.raises(KafkaTimeout, match="UNKNOWN_TOPIC_OR_PARTITION"):
            producer.send("tea", b"green")


@pytest.mark.parametrize("name", [b"coffee", None, 5, ""])
def test_an_invalid_topic_name_is_rejected_without_affecting_other_topics(
    open_producer: OpenProducer, name: object
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        with pytest.raises(InvalidTopic):
            producer.send(name, b"black")
        with pytest.raises(InvalidTopic):
            producer.do("partitions_for", name)
        producer.result(producer.send("tea", b"green"))


def test_a_missing_partition_times_out(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 2}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers, max_block_ms=2_000)
        with pytest.raises(KafkaTimeout, match="2 partitions"):
            producer.send("tea", b"green", partition=2)


def test_a_negative_partition_is_rejected(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 2}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        with pytest.raises(InvalidPartitions, match="not -1"):
            producer.send("tea", b"green", partition=-1)
        producer.result(producer.send("tea", b"green"))
        with pytest.raises(InvalidPartitions, match="not -1"):
            producer.send("tea", b"green", partition=-1)
        with pytest.raises(InvalidPartitions, match="not -2"):
            producer.do("send_batch", "tea", -2, bytearray())


def test_an_added_partition_is_found(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        producer.result(producer.send("tea", b"green"))
        cluster.on_loop(lambda: cluster.create_topic("tea", 2))
        assert producer.result(producer.send("tea", b"green", partition=1)).partition == 1
        assert len(producer.do("partitions_for", "tea")) == 2


def test_producer_metrics_have_kafkas_names() -> None:
    with (
        MockCluster(topics={"tea": 1}) as cluster,
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        for number in range(5):
            producer.send("tea", b"%d" % number).result(TIMEOUT_S)
        metrics = producer.metrics()
    sent = cluster.topics["tea"][0].batches
    assert metrics["record-send-total"] == 5
    assert metrics["request-total"] == len(sent)
    assert metrics["outgoing-byte-total"] == sum(map(len, sent))
    assert metrics["records-per-request-avg"] == 5 / len(sent)
    assert metrics["buffer-total-bytes"] >= metrics["buffer-available-bytes"] > 0


def test_flush_sends_lingering_batches(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000)
        future = producer.send("tea", b"green")
        assert not future.done()
        producer.do("flush", TIMEOUT_S)
        assert future.done()


def test_a_flush_times_out(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        cluster.script(ApiKey.PRODUCE, Stall())
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        producer.send("tea", b"green")
        with pytest.raises(KafkaTimeout):
            producer.do("flush", 0.1)


def test_close_sends_buffered_records(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000)
        producer.send("tea", b"green")
        producer.close(TIMEOUT_S)
        assert values(cluster) == [b"green"]


def test_close_ends_at_its_timeout_and_fails_unacknowledged_records(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        cluster.script(ApiKey.PRODUCE, Stall())
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        future = producer.send("tea", b"green")
        producer.close(0.1)
        assert isinstance(future.exception(0), ClientClosed)


def test_a_closed_producer_rejects_records(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        producer.result(producer.send("tea", b"green"))
        core = producer.producer._core
        producer.close(TIMEOUT_S)
        with pytest.raises(ClientClosed):
            core.send("tea", b"green", None, None, None, None)


def test_many_threads_can_send_at_once() -> None:
    with (
        MockCluster(topics={"tea": 3}) as cluster,
        Producer(bootstrap_servers=cluster.bootstrap_servers, batch_size=500) as producer,
    ):

        def work(number: int) -> None:
            for each in range(300):
                producer.send("tea", b"%d %d" % (number, each), key=b"%d" % number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush(TIMEOUT_S)
        found = [value for partition in range(3) for value in values(cluster, "tea", partition)]
        for number in range(4):
            own = [value for value in found if value and value.startswith(b"%d " % number)]
            assert own == [b"%d %d" % (number, each) for each in range(300)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"bootstrap.servers": "nowhere"},
        {"key.serializer": "avro"},
        {"partitioner.class": "mine"},
        {"interceptor.classes": "mine"},
    ],
    ids=str,
)
def test_a_failed_constructor_leaves_no_thread(wrong: dict[str, object]) -> None:
    before = threading.enumerate()
    with pytest.raises(InvalidSetting):
        Producer({"bootstrap.servers": "a:1", **wrong})
    # A thread of an earlier test may end meanwhile.
    assert [each for each in threading.enumerate() if each not in before] == []


def test_a_busy_partition_does_not_starve_others(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 4}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers,
            batch_size=1_000,
            max_request_size=2_500,
            max_in_flight_requests_per_connection=1,
            linger_ms=10_000,
        )
        producer.do("partitions_for", "tea")
        for _ in range(40):
            for partition in range(4):
                producer.send("tea", bytes(900), partition=partition)
        producer.do("flush", TIMEOUT_S)
        counts = [0, 0, 0, 0]
        for request in cluster.requests(ApiKey.PRODUCE):
            (topic,) = request.topic_data
            for each in topic.partition_data:
                counts[each.index] += 1
            assert max(counts) - min(counts) <= 12


# Tables.


def rows_of(cluster: MockCluster, topic: str = "tea") -> list[bytes | None]:
    return [record.value for partition in cluster.topics[topic] for record in partition.records]


def send_table(producer: Face, table: TableLike) -> list[tuple[str, int, int, int]]:
    future = producer.do("send_table", "tea", table)
    producer.do("flush", TIMEOUT_S)
    return [tuple(batch) for batch in future.result(TIMEOUT_S)]


def test_rows_of_a_table_are_partitioned_by_key(open_producer: OpenProducer) -> None:
    keys = [b"%d" % (number % 10) for number in range(1_000)]
    table = pa.table({"value": [b"%d" % number for number in range(1_000)], "key": keys})
    with MockCluster(topics={"tea": 4}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        batches = send_table(producer, table)
        assert sum(count for *_, count in batches) == 1_000
        for partition, log in enumerate(cluster.topics["tea"]):
            numbers = [int(record.value or b"") for record in log.records]
            assert numbers == sorted(numbers)
            for record in log.records:
                assert record.key is not None
                assert (murmur2(record.key) & 0x7FFFFFFF) % 4 == partition
        assert len(rows_of(cluster)) == 1_000


def test_a_table_may_have_partitions_timestamps_and_headers(open_producer: OpenProducer) -> None:
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "value": pa.array([b"a", b"b", None], pa.binary()),
            "partition": [1, 0, 1],
            "timestamp": [10, 20, 30],
            "headers": pa.array([[("h", b"1")], [], None], header),
        }
    )
    with MockCluster(topics={"tea": 2}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        send_table(producer, table)
        first, second = (partition.records for partition in cluster.topics["tea"])
    assert [(each.value, each.timestamp) for each in first] == [(b"b", 20)]
    assert [(each.value, each.timestamp) for each in second] == [(b"a", 10), (None, 30)]
    assert second[0].headers == (("h", b"1"),)


def test_a_table_is_sent_after_the_records_before_it(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=1_000)
        producer.send("tea", b"0")
        send_table(producer, pa.table({"value": [b"1", b"2"]}))
        producer.send("tea", b"3")
        producer.do("flush", TIMEOUT_S)
        assert rows_of(cluster) == [b"0", b"1", b"2", b"3"]


def test_a_table_larger_than_buffer_memory_is_sent(open_producer: OpenProducer) -> None:
    table = pa.table({"value": [bytes(1_000)] * 500})
    with MockCluster(topics={"tea": 2}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers,
            buffer_memory=100_000,
            headwater_table_batch_bytes=10_000,
            compression_type="lz4",
        )
        send_table(producer, table)
        assert len(rows_of(cluster)) == 500
        assert all(partition.headers for partition in cluster.topics["tea"])


def test_a_data_frame_is_accepted_as_a_table(open_producer: OpenProducer) -> None:
    frame = pandas.DataFrame({"key": ["a", None], "value": ["green", "black"]})
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        send_table(producer, frame)
        assert rows_of(cluster) == [b"green", b"black"]
        assert [row.key for row in cluster.topics["tea"][0].records] == [b"a", None]


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ({"value": [b"a"]}, InvalidArgument),
        (pa.table({"value": [b"a"], "partition": [9]}), InvalidPartitions),
        (pa.table({"value": [b"a"], "values": [b"a"]}), InvalidRecord),
        (pa.table({"value": [bytes(2_000_000)]}), MessageTooLarge),
    ],
    ids=["no table", "no such partition", "an unknown column", "too large a row"],
)
def test_an_invalid_table_is_rejected_as_a_whole(
    open_producer: OpenProducer, table: pa.Table, error: type[Exception]
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers)
        with pytest.raises(error):
            producer.do("send_table", "tea", table)
        assert rows_of(cluster) == []
