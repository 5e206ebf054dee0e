"""Follow the batches of a run: commit them as consumer groups, and serve metrics."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, cast

from pyspark.sql.streaming.listener import StreamingQueryListener

from headwater.network.endpoint import Endpoint
from headwater.pipelines.metrics.lag_monitor import LagMonitor
from headwater.pipelines.metrics.pipeline_metrics import MetricsServer, PipelineMetrics
from headwater.pipelines.metrics.progress_listener import ProgressListener, group_commits
from headwater.pipelines.metrics.progress_totals import SinkTotals
from headwater.pipelines.run.query_state import SinkQueryState
from headwater.pipelines.spec.pipeline_spec import PipelineSpec
from headwater.spark.graceful_stop import Query

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class RunProgress:
    """The listeners and metrics of one run."""

    def __init__(self, spec: PipelineSpec, endpoint: Endpoint | None) -> None:
        self._spec = spec
        self._endpoint = endpoint
        self._commits = group_commits(spec)
        self._totals = ProgressListener(spec.name)
        self._metrics: PipelineMetrics | None = None

    @property
    def is_served(self) -> bool:
        return self._endpoint is not None

    @property
    def listeners(self) -> list[StreamingQueryListener]:
        return [*self._commits, *([self._totals] if self.is_served else [])]

    @property
    def totals(self) -> Mapping[str, SinkTotals]:
        return self._totals.totals

    def catch_up(self, query: Query) -> None:
        """Commit the last batch of an ended query; its listener may be too late."""
        for each in self._commits:
            each.catch_up(cast("StreamingQuery", query))

    def update(self, lives: list[SinkQueryState]) -> None:
        if self._metrics is not None:
            self._metrics.lives = lives

    @contextmanager
    def serving(
        self, lag_monitor: LagMonitor, *, steady_ms: Callable[[], int]
    ) -> Iterator[str | None]:
        """Serve metrics at the URL that it yields, if an address is given.

        At the end it closes the clients that commit offsets.
        """
        url: str | None = None
        with ExitStack() as stack:
            for each in self._commits:
                stack.callback(each.close)
            if self._endpoint is not None:
                self._metrics = PipelineMetrics(
                    self._spec.name,
                    totals=lambda: self.totals,
                    lags=lambda: lag_monitor.lags,
                )
                server = MetricsServer(self._endpoint, self._metrics.families, steady_ms=steady_ms)
                stack.enter_context(server)
                url = server.url
            yield url
