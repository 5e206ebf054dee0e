"""Sum up the progress of queries, and commit their offsets to consumer groups."""

import json
import threading
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from headwater.pipelines.metrics.lag_monitor import clusters_of, reads
from headwater.pipelines.metrics.progress_totals import SinkTotals
from headwater.pipelines.run.batch_progress import read_progress
from headwater.pipelines.spec.pipeline_spec import PipelineSpec
from headwater.spark.group_offset_commits import GroupCommits
from headwater.spark.source.source_options import SourceSubscription

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


class ProgressListener(StreamingQueryListener):
    """Sums up the progress of each query. Spark calls it in its own thread."""

    def __init__(self, pipeline: str) -> None:
        self._prefix = f"{pipeline}-"
        self._lock = threading.Lock()
        self.totals: Mapping[str, SinkTotals] = {}
        """By sink. Replaced as a whole, so that any thread may read it."""

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:  # noqa: N802
        """Do nothing: no batch has run yet."""

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:  # noqa: N802
        self.add(event.progress.name or "", event.progress.json)

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:  # noqa: N802
        """Do nothing: no batch has run."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:  # noqa: N802
        """Do nothing: the last progress was reported before."""

    def add(self, query: str, text: str) -> None:
        name = query.removeprefix(self._prefix)
        batch = read_progress(json.loads(text))
        with self._lock:
            former = self.totals.get(name, SinkTotals())
            self.totals = {**self.totals, name: former.plus(batch)}


def group_commits(spec: PipelineSpec) -> list[GroupCommits]:
    """Return listeners that commit each sink's offsets to `spark-PIPELINE-SINK`.

    A bounded run commits nothing, since its range does not show the progress of the pipeline.
    """
    if spec.is_bounded or not spec.commits_offsets:
        return []
    return [
        GroupCommits(client, None, accepts=partial(_any, tuple(subscriptions)))
        for client, subscriptions in clusters_of(spec)
    ]


def _any(subscriptions: Iterable[SourceSubscription], topic: str) -> bool:
    return any(reads(each, topic) for each in subscriptions)
