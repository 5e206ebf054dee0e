"""Commit the offsets of queries to consumer groups, for tools that show lag.

Spark keeps the offsets of a query in its checkpoint only. A listener commits them after each batch
to a group without members. A query never reads these commits: it resumes from its checkpoint, and a
failed commit does not affect it.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from headwater.client.consumer.offset_range_reader import OffsetRangeReader
from headwater.client.errors import KafkaError
from headwater.client.group_metadata import OffsetAndMetadata
from headwater.spark.source.topic_offsets import Offsets, offsets_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)


class GroupCommits(StreamingQueryListener):
    """Commits the offsets of queries to groups derived from their names."""

    def __init__(
        self,
        client: Mapping[str, object],
        group_id: str | None,
        *,
        accepts: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`accepts` returns whether a topic is in the cluster of these brokers."""
        self._client = dict(client)
        self._group_id = group_id
        self.accepts = accepts
        self._warned: str | None = None
        self._brokers: OffsetRangeReader | None = None

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:  # noqa: N802
        """Do nothing: no batch has run yet."""

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:  # noqa: N802
        self._commit_all(event.progress)

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:  # noqa: N802
        """Do nothing: no batch has run."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:  # noqa: N802
        """Do nothing: the last progress was reported before."""

    def catch_up(self, query: "StreamingQuery") -> None:
        """Commit the current offsets of a query, whether or not a listener was called.

        Listeners are called late, and not at all for a restarted query that has nothing to read:
        the batch before the restart would not be committed until there is another one.
        """
        progress = query.lastProgress
        if progress is not None:
            self._commit_all(progress)

    def close(self) -> None:
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    def _commit_all(self, progress: "StreamingQueryProgress") -> None:
        group_id = self._group_id or f"spark-{progress.name or progress.id}"
        for source in progress.sources:
            offsets = {
                each: offset
                for each, offset in offsets_in(source.endOffset).items()
                if self.accepts(each.topic)
            }
            if offsets:
                self._commit(group_id, offsets)

    def _commit(self, group_id: str, offsets: Offsets) -> None:
        try:
            if self._brokers is None:
                self._brokers = OffsetRangeReader(self._client)
            positions = {each: OffsetAndMetadata(offset) for each, offset in offsets.items()}
            self._brokers.commit(group_id, positions)
        except KafkaError as error:
            # Logged once, not with every batch, for example if an ACL denies it.
            if str(error) != self._warned:
                self._warned = str(error)
                _log.warning("Offsets not committed: group=%s error=%s", group_id, error)


def commit_progress(
    spark: "SparkSession", client: Mapping[str, object], *, group_id: str | None = None
) -> GroupCommits:
    """Commit the offsets of a session's queries to brokers.

    `client` has at least `bootstrap.servers`. Without a group id each query has its own group,
    `spark-` and its name, or its id if it has none.
    """
    listener = GroupCommits(client, group_id)
    spark.streams.addListener(listener)
    return listener
