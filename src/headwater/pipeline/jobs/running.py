"""Runs a pipeline in this process, in a session of its own, until it ends or is stopped.

What a reader would get wrong: a sink's frame is made anew each time its query is started. So a
restart reads a Python step's file and a table's options as they are then, and what failed while
Spark planned is tried again like what failed while it ran.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from headwater.pipeline.failures import OptionRefused, RoutesDiffer, SchemaUnfit, WrongColumns
from headwater.pipeline.gentle_stop import STOP_PATIENCE_MS, Query
from headwater.pipeline.jobs.connector_port import Connectors
from headwater.pipeline.jobs.document import PipelineRefused
from headwater.pipeline.jobs.frames import Frames
from headwater.pipeline.jobs.new_topics import create_topics
from headwater.pipeline.jobs.queries import start_dead_letters, start_sink
from headwater.pipeline.jobs.sink_life import SinkLife, SinkState
from headwater.pipeline.jobs.spark_failures import spark_errors
from headwater.pipeline.jobs.spec import PipelineSpec, SinkSpec, Trigger
from headwater.pipeline.jobs.supervising import Start, Supervisor, Tell
from headwater.pipeline.spark_session import register
from headwater.pipeline.stream_writing import FIXED_ROUTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HOPELESS: Final = (PipelineRefused, OptionRefused, SchemaUnfit, WrongColumns, RoutesDiffer)

_DEAD_LETTERS: Final = "dead-letters-of-"


def supervisor_of(
    spec: PipelineSpec,
    spark: "SparkSession",
    *,
    connectors: Connectors,
    steady_ms: Callable[[], int],
    tell: Tell,
    stop_patience_ms: int = STOP_PATIENCE_MS,
) -> Supervisor:
    """Ready to run. Makes the topics that may be made."""
    from pyspark.errors import AnalysisException, ParseException

    create_topics(spec)
    # Its views and settings are its own, its executors are everybody's.
    own = spark.newSession()
    for name, value in FIXED_ROUTES.items():
        own.conf.set(name, value)
    # Whether a format is known already is looked up in the session of the thread.
    _make_active(own)
    register(own)
    return Supervisor(
        _starts(own, spec, connectors),
        spec.restarts,
        refusals=spark_errors(),
        # A column that is not there will not be there in ten seconds either.
        hopeless=(AnalysisException, ParseException, *_HOPELESS),
        steady_ms=steady_ms,
        tell=tell,
        stop_patience_ms=stop_patience_ms,
    )


def exit_code(lives: list[SinkLife]) -> int:
    return 1 if any(each.state is SinkState.FAILED for each in lives) else 0


def _make_active(spark: "SparkSession") -> None:
    """Have this thread's session be that one: Spark looks for formats nowhere else.

    Making a frame of rows does it, and nothing else that is public.
    """
    spark.createDataFrame([], "nothing int")


def _starts(spark: "SparkSession", spec: PipelineSpec, connectors: Connectors) -> dict[str, Start]:
    def start(sink: SinkSpec) -> Query:
        _make_active(spark)
        frames = Frames(spark, spec, connectors)
        return start_sink(frames[sink.source], sink, spec, connectors)

    def start_letters(source: str, name: str) -> Query:
        _make_active(spark)
        letters = Frames(spark, spec, connectors).dead_letters()[source]
        return start_dead_letters(letters, name, _slowest(spec), spec)

    starts: dict[str, Start] = {sink.name: partial(start, sink) for sink in spec.sinks}
    if spec.dead_letter is not None:
        for source in Frames(spark, spec, connectors).dead_letters():
            name = _DEAD_LETTERS + source
            starts[name] = partial(start_letters, source, name)
    return starts


def _slowest(spec: PipelineSpec) -> Trigger:
    """Dead letters are in no hurry; they end when all sinks end."""
    every = [each.trigger.every_ms for each in spec.sinks]
    known = [each for each in every if each is not None]
    return Trigger(every_ms=max(known)) if known else Trigger()
