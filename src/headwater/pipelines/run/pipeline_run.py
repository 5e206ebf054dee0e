"""Run a pipeline in a session of this process until it ends or is stopped.

The frame of a sink is built each time its query starts. So a restart reads the file of a Python
step and the options of a table again, and failures of planning are retried like failures at run
time.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from headwater.client import Admin, NewTopic
from headwater.client.errors import TopicAlreadyExists
from headwater.client.settings import shared_settings
from headwater.pipelines.check.connector_port import Connectors
from headwater.pipelines.check.topic_options import topic_options
from headwater.pipelines.run.data_frames import Frames
from headwater.pipelines.run.dead_letters import start_dead_letters
from headwater.pipelines.run.query_state import SinkQueryState, SinkState
from headwater.pipelines.run.sink_queries import start_sink
from headwater.pipelines.run.spark_errors import spark_errors
from headwater.pipelines.run.supervisor import OnChange, Start, Supervisor
from headwater.pipelines.spec.document import InvalidPipeline
from headwater.pipelines.spec.pipeline_spec import NewTopicSpec, PipelineSpec, SinkSpec, Trigger
from headwater.pipelines.spec.spark_formats import DELTA
from headwater.pipelines.tables.delta_setup import delta_conf
from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.exceptions import InvalidOption, UnsafeReplay, WrongColumns
from headwater.spark.graceful_stop import STOP_TIMEOUT_MS, Query
from headwater.spark.sink.sink_options import read_sink_options
from headwater.spark.sink.write_stream import FIXED_ROUTES
from headwater.spark.spark_session import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener

_HOPELESS: Final = (InvalidPipeline, InvalidOption, UnsupportedSchema, WrongColumns, UnsafeReplay)

DEAD_LETTERS: Final = "dead-letters-of-"


def supervisor_of(
    spec: PipelineSpec,
    spark: "SparkSession",
    *,
    connectors: Connectors,
    steady_ms: Callable[[], int],
    on_change: OnChange,
    stop_timeout_ms: int = STOP_TIMEOUT_MS,
    listeners: Sequence["StreamingQueryListener"] = (),
    ended: Callable[[Query], None] = lambda _: None,
    is_measured: bool = False,
) -> Supervisor:
    """Return a supervisor that is ready to run. Creates missing topics.

    `listeners` are notified of every batch, with a delay; `ended` is called with each query that
    has ended.
    """
    from pyspark.errors import AnalysisException, ParseException

    return Supervisor(
        query_starts(spec, spark, connectors, listeners=listeners, is_measured=is_measured),
        spec.restarts,
        config_errors=spark_errors(),
        # A retry does not help if a column is missing.
        fatal_errors=(AnalysisException, ParseException, *_HOPELESS),
        steady_ms=steady_ms,
        on_change=on_change,
        stop_timeout_ms=stop_timeout_ms,
        ended=ended,
    )


def query_starts(
    spec: PipelineSpec,
    spark: "SparkSession",
    connectors: Connectors,
    *,
    listeners: Sequence["StreamingQueryListener"] = (),
    is_measured: bool = False,
) -> dict[str, Start]:
    """Return a start function for each query name. Creates missing topics."""
    create_topics(spec)
    # A new session has its own views and settings, and shares the executors.
    own = spark.newSession()
    for name, value in FIXED_ROUTES.items():
        own.conf.set(name, value)
    # Spark looks up registered formats in the thread's active session.
    _make_active(own)
    register(own)
    for each in listeners:
        own.streams.addListener(each)
    return _starts(own, spec, connectors, is_measured=is_measured)


def session_conf(spec: PipelineSpec) -> dict[str, str]:
    """Return Spark's settings for a pipeline and its table formats."""
    formats = {each.format.lower() for each in spec.sources}
    formats |= {each.format.lower() for each in spec.sinks}
    return delta_conf(spec.conf) if DELTA in formats else dict(spec.conf)


def exit_code(states: list[SinkQueryState]) -> int:
    return 1 if any(each.state is SinkState.FAILED for each in states) else 0


def _make_active(spark: "SparkSession") -> None:
    """Make this the thread's active session, in which Spark looks up formats.

    Creating a DataFrame from rows is the only public way to do it.
    """
    spark.createDataFrame([], "nothing int")


def _starts(
    spark: "SparkSession", spec: PipelineSpec, connectors: Connectors, *, is_measured: bool
) -> dict[str, Start]:
    def start(sink: SinkSpec) -> Query:
        _make_active(spark)
        frames = Frames(spark, spec, connectors, is_measured=is_measured)
        return start_sink(frames[sink.source], sink, spec, connectors)

    def start_letters(source: str, name: str) -> Query:
        _make_active(spark)
        frames = Frames(spark, spec, connectors, is_measured=is_measured)
        letters = frames.dead_letters()[source]
        return start_dead_letters(letters, name, _slowest(spec), spec)

    starts: dict[str, Start] = {sink.name: partial(start, sink) for sink in spec.sinks}
    if spec.dead_letter is not None:
        for source in Frames(spark, spec, connectors).dead_letters():
            name = DEAD_LETTERS + source
            starts[name] = partial(start_letters, source, name)
    return starts


def _slowest(spec: PipelineSpec) -> Trigger:
    """Return the longest trigger interval, for dead letters; they end with the sinks."""
    every = [each.trigger.every_ms for each in spec.sinks]
    known = [each for each in every if each is not None]
    return Trigger(every_ms=max(known)) if known else Trigger()


def create_topics(spec: PipelineSpec) -> None:
    """Create the missing topics of sinks with `create`, and the dead-letter topic."""
    for options, new in _wanted(spec):
        read = read_sink_options(topic_options(spec, options), is_streaming=True)
        assert read.topic is not None, "refused when the pipeline was checked"
        with Admin(shared_settings(read.client)) as admin:
            if read.topic in admin.list_topics():
                continue
            topic = NewTopic(
                name=read.topic,
                partitions=new.partitions,
                replication_factor=new.replication_factor,
                configs=dict(new.configs),
            )
            try:
                admin.create_topics([topic])
            except TopicAlreadyExists:
                continue


def _wanted(spec: PipelineSpec) -> Iterator[tuple[dict[str, str], NewTopicSpec]]:
    for sink in spec.sinks:
        if sink.create is not None:
            yield dict(sink.options), sink.create
    if spec.dead_letter is not None:
        yield {"topic": spec.dead_letter}, NewTopicSpec()
