"""Write and read the state of pipeline runs in a topic, from any machine."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final, Self

from headwater.client import Admin, NewTopic, Producer, TopicPartition
from headwater.client.consumer.offset_range_reader import OffsetRangeReader
from headwater.client.errors import TopicAlreadyExists
from headwater.client.settings import shared_settings
from headwater.pipelines.run.run_files import RunReport
from headwater.pipelines.run.run_records import (
    TOPIC,
    TOPIC_CONFIGS,
    PublishedRun,
    PublishedRuns,
    run_record,
    stop_record,
)
from headwater.records.arrow_columns import decode_batches
from headwater.spark.source.topic_offsets import EARLIEST, LATEST

_PARTITION: Final = TopicPartition(TOPIC, 0)


class RunTopic:
    """The topic of one cluster's runs; `refresh` reads new records."""

    def __init__(self, client: Mapping[str, str]) -> None:
        """`client` has `bootstrap.servers` and settings for TLS and SASL."""
        self._client = dict(client)
        self._reader = OffsetRangeReader(self._client)
        self._producer: Producer | None = None
        self._position: int | None = None
        self.runs = PublishedRuns()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        if self._producer is not None:
            self._producer.close()

    def create(self) -> None:
        """Create the topic, unless it exists."""
        topic = NewTopic(
            name=TOPIC, partitions=1, replication_factor=-1, configs=dict(TOPIC_CONFIGS)
        )
        with Admin(shared_settings(self._client)) as admin:
            if TOPIC in admin.list_topics():
                return
            try:
                admin.create_topics([topic])
            except TopicAlreadyExists:
                return

    def refresh(self) -> PublishedRuns:
        """Read to the end; a cluster without the topic has no runs."""
        if TOPIC not in self._reader.topics():
            return self.runs
        if self._position is None:
            self._position = self._at(EARLIEST)
        for fetched in self._reader.read(_PARTITION, self._position, self._at(LATEST)):
            records = decode_batches(
                fetched.data, fetched.batches, first_offset=fetched.first_offset
            )
            keys, values = records.column("key"), records.column("value")
            for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
                self.runs.replay(key, value)
            self._position = fetched.next_offset
        return self.runs

    def publish(self, report: RunReport) -> None:
        """Write a report of a run on this machine."""
        values = asdict(report)
        del values["is_running"]
        sinks = tuple(values.pop("sinks"))
        self._send(run_record(PublishedRun(host=os.uname().nodename, sinks=sinks, **values)))

    def request_stop(self, run: PublishedRun, now_ms: int) -> None:
        self._send(stop_record(run, now_ms))

    def _send(self, record: tuple[bytes, bytes]) -> None:
        if self._producer is None:
            self._producer = Producer(self._client)
        key, value = record
        self._producer.send(TOPIC, value, key, partition=0).result()

    def _at(self, place: int) -> int:
        return self._reader.offsets({_PARTITION: place})[_PARTITION].offset
