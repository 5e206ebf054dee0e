"""Run a pipeline file on given records, with a real broker and Spark.

    result = PipelineTest("orders.yaml", ...).feed("orders", [{"id": 1, "amount": 200.0}]).run()
    assert result["big-orders"] == [{"id": 1, "amount": 200.0}]

Each run starts the queries of all sinks from their checkpoint, lets them process what was fed, and
ends them. So a run has one micro-batch with rows, unless the source limits its batches, and the
ones without rows that a moved watermark causes. Nothing waits for a clock.
"""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol, Self

from headwater.client import ProducerRecord
from headwater.common.exceptions import HeadwaterError
from headwater.common.settings.java_properties import format_properties
from headwater.common.settings.setting_types import Value, format_value
from headwater.connect.pipeline_connectors import InstalledConnectors
from headwater.pipelines.check.checked_pipeline import only_once
from headwater.pipelines.check.pipeline_check import check_pipeline, source_options
from headwater.pipelines.run.pipeline_run import query_starts
from headwater.pipelines.run.sink_queries import checkpoint_of
from headwater.pipelines.run.supervisor import Start
from headwater.pipelines.spec.document import Document, InvalidPipeline
from headwater.pipelines.spec.load_document import load_document
from headwater.pipelines.spec.pipeline_reader import read_pipeline
from headwater.pipelines.spec.pipeline_spec import PipelineSpec, SinkSpec, SourceSpec
from headwater.testing.pipelines import checkpoint_files
from headwater.testing.pipelines.captured_sinks import CapturedSinks, frame_rows
from headwater.testing.pipelines.local_spec import captured, is_file_sink, local_spec, path_of
from headwater.testing.pipelines.pipeline_result import (
    PipelineResult,
    dead_letter_row,
    topic_row,
)
from headwater.testing.pipelines.pipeline_topics import TopicSet
from headwater.testing.pipelines.query_runs import FinishedQuery, run_queries
from headwater.testing.pipelines.registry_codecs import deserializers, needs_registry, serializers
from headwater.testing.pipelines.sink_rows import SinkRow, SinkRows, hashable
from headwater.testing.pipelines.source_files import FedFiles
from headwater.testing.pipelines.source_records import RowEncoder

Row = Mapping[str, Any] | str | bytes | ProducerRecord
Moment = datetime | str

_DEAD_LETTERS: Final = "dead letters"
_EMPTY_BATCHES: Final = "spark.sql.streaming.noDataMicroBatches.enabled"


class InvalidTest(HeadwaterError):
    """The test asks for something that the pipeline does not have."""


class PipelineTest:
    """A pipeline under test. `feed` records, `run`, and compare what the sinks got."""

    def __init__(
        self,
        file: Path | str,
        *,
        bootstrap_servers: str,
        spark: Any,
        folder: Path,
        partitions: int = 1,
        client_settings: Mapping[str, Value] | None = None,
        registry: Callable[[], str] | None = None,
        beside: Callable[[Path | str], Path] = Path,
    ) -> None:
        """Keep files in `folder`; new topics have `partitions` partitions.

        `registry` returns the URL of a schema registry, and is called if the pipeline has Avro.
        `beside` finds the files that `restart` is given.
        """
        self._file = Path(file)
        self._spark = spark
        self._folder = folder
        self._partitions = partitions
        self._bootstrap = bootstrap_servers
        self._settings = _settings_file(client_settings, folder)
        self._registry = registry
        self._beside = beside
        self._registry_url: str | None = None
        client = {name: format_value(text) or "" for name, text in (client_settings or {}).items()}
        self._topics = TopicSet({**client, "bootstrap.servers": bootstrap_servers})
        self._files = FedFiles(spark, folder / "staged")
        self._captured = CapturedSinks(InstalledConnectors())
        self._changes: dict[str, dict[str, str]] = {}
        self._fed: dict[str, str | None] = {}
        self._rows: dict[str, list[SinkRow]] = {}
        self._new: dict[str, int] = {}
        # By query and batch id: a repeated batch counts once.
        self._late_rows: dict[tuple[str, int], int] = {}
        self._watermarks: dict[str, datetime] = {}
        # Queries that had a batch in the last run.
        self._last_run: list[str] = []
        self._starts: dict[str, Start] | None = None
        self._is_pending = False
        self._load()

    @property
    def spec(self) -> PipelineSpec:
        """The pipeline as it is run: on the broker and in the folder of the test."""
        return self._local(self._given)

    def options(self, name: str, **options: object) -> Self:
        """Give a source or sink other options, such as the address of a test's database.

        Note: a sink of a connector is kept in memory only, unless this gives it options.
        """
        ends: list[SourceSpec | SinkSpec] = [*self._given.sources, *self._given.sinks]
        if name not in [each.name for each in ends]:
            raise InvalidTest(_unknown("source or sink", name, [each.name for each in ends]))
        self._changes[name] = {key: str(value) for key, value in options.items()}
        self._starts = None
        return self

    def feed(
        self,
        source: str,
        rows: Iterable[Row],
        *,
        key: str | None = None,
        topic: str | None = None,
        timestamp: Moment | None = None,
        schema: str | None = None,
    ) -> Self:
        """Add rows to a source. The next run processes them.

        A row is a dictionary of the source's columns. A text or bytes is a value as it is, such
        as one that does not parse; a `ProducerRecord` has all parts of a record. `key` names a
        column to use as the record's key as well. `timestamp` is that of the records. `schema` is
        an Avro schema, or the columns of a source that has none.
        """
        found = self._source(source)
        given = list(rows)
        if not found.is_topic:
            self._feed_files(found, given, schema)
        else:
            where = topic or self._topic_of(found)
            self._topics.make([where], self._partitions)
            self._topics.send(
                self._record(found, where, each, key, timestamp, schema) for each in given
            )
        self._is_pending = True
        return self

    def delete(self, source: str, keys: Iterable[str]) -> Self:
        """Add a tombstone for each key to the topic of a source."""
        where = self._topic_of(self._source(source))
        return self.feed(source, [ProducerRecord(topic=where, key=key) for key in keys])

    def run(self) -> PipelineResult:
        """Process what was fed, and return what all sinks have got since the test began."""
        finished = self._run()
        for name, query in finished.items():
            self._note(name, query)
        for sink in self.spec.sinks:
            self._collect(sink)
        self._collect_dead_letters()
        return self._result()

    def advance_watermark(self, to: Moment) -> Self:
        """Process what was fed, then move event time to `to` without an event.

        Windows that end by then are closed, and older events are late from then on.
        """
        if not self._has_watermark():
            raise InvalidTest(f"no source and no step of {self._file.name} has a watermark")
        watermark_ms = round(_moment(to).timestamp() * 1_000)
        if self._is_pending or any(each < 0 for each in self._last_batches().values()):
            self._move_ends()
            self._run_noted()
        for name in self._query_names():
            checkpoint_files.set_watermark(self._checkpoint(name), watermark_ms)
        self._move_ends()
        self._run_noted()
        return self

    def restart(self, file: Path | str | None = None) -> Self:
        """Process what was fed, then continue with the file, or another version.

        Checkpoints stay, as after a stop and a start of the pipeline.
        """
        if self._is_pending:
            self._run_noted()
        if file is not None:
            self._file = self._beside(file)
        self._load()
        return self

    def crash(self) -> Self:
        """Process what was fed, but have the next run repeat it.

        That is a driver that dies after the sinks have written and before Spark has noted it.
        """
        if self._is_pending:
            # A batch without rows after it would be repeated in its place.
            self._starts = self._query_starts(has_empty_batches=False)
            self._run_noted()
        for name in self._last_run:
            checkpoint = self._checkpoint(name)
            checkpoint_files.undo_commits(checkpoint, checkpoint_files.last_batch(checkpoint))
        self._starts = None
        self._is_pending = True
        return self

    def close(self) -> None:
        """Delete the topics that the test made."""
        self._topics.close()

    def _load(self) -> None:
        document = _without_login(load_document(self._file))
        spec, problems = read_pipeline(document)
        self._given = spec
        self._starts = None
        if needs_registry(spec) and self._registry_url is None and self._registry is not None:
            self._registry_url = self._registry()
        local = self._local(spec)
        problems += check_pipeline(
            document, local, connectors=self._captured, grammar=None, topics=None
        )
        if problems:
            raise InvalidPipeline(sorted(problems, key=lambda each: each.line))
        self._make_topics(local)

    def _local(self, spec: PipelineSpec) -> PipelineSpec:
        return local_spec(
            spec,
            bootstrap=self._bootstrap,
            settings=self._settings,
            registry=self._registry_url,
            folder=self._folder,
            changes=self._changes,
            fed=self._fed,
        )

    def _make_topics(self, spec: PipelineSpec) -> None:
        created = [sink.options["topic"] for sink in spec.sinks if sink.create is not None]
        if spec.dead_letter is not None:
            created.append(spec.dead_letter)
        self._topics.note(created)
        sources = [name for each in spec.sources if each.is_topic for name in _topics(each, spec)]
        sinks = [
            sink.options["topic"]
            for sink in spec.sinks
            if sink.is_topic and sink.create is None and "topic" in sink.options
        ]
        self._topics.make([*sources, *sinks], self._partitions)

    def _source(self, name: str) -> SourceSpec:
        spec = self.spec
        for source in spec.sources:
            if source.name == name:
                return source
        of_topic = [each for each in spec.sources if each.is_topic and name in _topics(each, spec)]
        if len(of_topic) == 1:
            return of_topic[0]
        raise InvalidTest(_unknown("source", name, [each.name for each in spec.sources]))

    def _topic_of(self, source: SourceSpec) -> str:
        if not source.is_topic:
            raise InvalidTest(f"the source {source.name} is no topic")
        names = _topics(source, self.spec)
        if len(names) != 1:
            raise InvalidTest(f"the source {source.name} has {len(names)} topics: give topic=")
        return names[0]

    def _record(
        self,
        source: SourceSpec,
        topic: str,
        row: Row,
        key_column: str | None,
        timestamp: Moment | None,
        schema: str | None,
    ) -> ProducerRecord:
        at_ms = None if timestamp is None else round(_moment(timestamp).timestamp() * 1_000)
        match row:
            case ProducerRecord():
                return ProducerRecord(
                    topic=row.topic,
                    value=_bytes(row.value),
                    key=_bytes(row.key),
                    partition=row.partition,
                    timestamp=row.timestamp or at_ms,
                    headers=row.headers,
                )
            case str() | bytes():
                return ProducerRecord(topic=topic, value=_bytes(row), timestamp=at_ms)
            case _:
                avro = serializers(source, self._registry_url, topic, schema)
                key, value = RowEncoder(source, avro).encode(row, key_column)
                return ProducerRecord(topic=topic, value=value, key=key, timestamp=at_ms)

    def _feed_files(self, source: SourceSpec, rows: list[Row], schema: str | None) -> None:
        dictionaries = [row for row in rows if isinstance(row, Mapping)]
        if len(dictionaries) < len(rows):
            raise InvalidTest(f"the source {source.name} is no topic: its rows are dictionaries")
        if source.name not in self._fed:
            if self._late_rows:
                raise InvalidTest(f"feed {source.name} before the first run, too")
            known = source.schema or schema
            if known is None and path_of(source) is None:
                known = self._files.schema_of(dictionaries)
            self._fed[source.name] = known
            self._starts = None
        (moved,) = [each for each in self.spec.sources if each.name == source.name]
        self._files.write(moved, dictionaries)

    def _run_noted(self) -> None:
        for name, query in self._run().items():
            self._note(name, query)

    def _run(self) -> dict[str, FinishedQuery]:
        before = self._last_batches()
        if self._starts is None:
            self._starts = self._query_starts()
        finished = run_queries(self._starts)
        after = self._last_batches()
        self._last_run = [name for name, last in after.items() if last > before.get(name, -1)]
        self._is_pending = False
        return finished

    def _query_starts(self, *, has_empty_batches: bool = True) -> dict[str, Start]:
        spec = only_once(captured(self.spec, self._changes))
        found = query_starts(spec, self._spark, self._captured)
        if not has_empty_batches:
            # The session of these queries, which is the thread's since they were planned.
            self._spark.getActiveSession().conf.set(_EMPTY_BATCHES, "false")
        return found

    def _note(self, name: str, query: FinishedQuery) -> None:
        for batch in query.batches:
            self._late_rows[name, batch.batch_id] = batch.dropped_rows
            if batch.watermark is not None:
                self._watermarks[name] = _moment(batch.watermark)

    def _query_names(self) -> list[str]:
        if self._starts is None:
            return [sink.name for sink in self._given.sinks]
        return list(self._starts)

    def _last_batches(self) -> dict[str, int]:
        folder = Path(checkpoint_of(self.spec, "x")).parent
        names = {*self._query_names(), *(each.name for each in folder.glob("*"))}
        return {name: checkpoint_files.last_batch(self._checkpoint(name)) for name in sorted(names)}

    def _checkpoint(self, name: str) -> Path:
        return Path(checkpoint_of(self.spec, name))

    def _has_watermark(self) -> bool:
        spec = self._given
        known = [each.watermark for each in spec.sources] + [each.watermark for each in spec.steps]
        return any(each is not None for each in known)

    def _move_ends(self) -> None:
        spec = self.spec
        streams = [each for each in spec.sources if not (each.is_table or each.is_static)]
        self._topics.move_end(
            sorted({name for each in streams if each.is_topic for name in _topics(each, spec)})
        )
        for each in streams:
            if not each.is_topic and each.name in self._fed:
                self._files.add_empty(each)

    def _collect(self, sink: SinkSpec) -> None:
        if sink.is_topic:
            topic = sink.options.get("topic")
            if topic is not None:
                read = deserializers(sink, self._registry_url)
                self._add(sink.name, [topic_row(e, read) for e in self._topics.read_new(topic)])
        elif is_file_sink(sink):
            self._replace(sink.name, self._read_files(sink))
        else:
            self._replace(sink.name, list(self._captured.rows(sink.name)))

    def _collect_dead_letters(self) -> None:
        topic = self._given.dead_letter
        if topic is not None:
            letters = [dead_letter_row(each) for each in self._topics.read_new(topic)]
            self._add(_DEAD_LETTERS, letters)

    def _read_files(self, sink: SinkSpec) -> list[SinkRow]:
        if not any(Path(sink.options["path"]).glob("**/part-*")):
            return []
        return frame_rows(self._spark.read.format(sink.format).options(**sink.options).load())

    def _add(self, name: str, new: list[SinkRow]) -> None:
        self._rows.setdefault(name, []).extend(new)
        self._new[name] = len(new)

    def _replace(self, name: str, rows: list[SinkRow]) -> None:
        """All rows of a sink, of which the ones that were not there before are new."""
        before = Counter(map(hashable, self._rows.get(name, [])))
        old: list[SinkRow] = []
        new: list[SinkRow] = []
        for row in rows:
            same = hashable(row)
            is_old = before[same] > 0
            before[same] -= is_old
            (old if is_old else new).append(row)
        self._rows[name] = [*old, *new]
        self._new[name] = len(new)

    def _result(self) -> PipelineResult:
        rows = {
            sink.name: SinkRows(
                self._rows.get(sink.name, []), name=sink.name, new=self._new.get(sink.name, 0)
            )
            for sink in self._given.sinks
        }
        letters = SinkRows(
            self._rows.get(_DEAD_LETTERS, []),
            name=_DEAD_LETTERS,
            new=self._new.get(_DEAD_LETTERS, 0),
        )
        return PipelineResult(
            rows,
            _aliases(self._given.sinks),
            letters,
            watermark=min(self._watermarks.values(), default=None)
            if self._has_watermark()
            else None,
            late_rows=sum(self._late_rows.values()),
            batches=Counter(name for name, _ in self._late_rows),
        )


class PipelineTestFactory(Protocol):
    """The type of the fixture `pipeline_test`."""

    def __call__(self, file: Path | str, *, partitions: int = 1) -> PipelineTest:
        """Test a file, with this many partitions for topics that it does not create."""


def _without_login(document: Document) -> Document:
    """Drop the login of the pipeline's cluster, which the test does not use."""
    if not isinstance(document.value, dict):
        return document
    left = {name: value for name, value in document.value.items() if name != "settings"}
    return replace(document, value=left)


def _topics(source: SourceSpec, spec: PipelineSpec) -> list[str]:
    wanted = source_options(source, spec).subscription
    return sorted({*wanted.topics, *(each.topic for each in wanted.partitions)})


def _aliases(sinks: Iterable[SinkSpec]) -> dict[str, str]:
    """Names by topic, last part of the path, and source, where only one sink has it."""
    found: dict[str, list[str]] = {}
    for sink in sinks:
        path = path_of(sink)
        others = [sink.options.get("topic"), path and Path(path).name, sink.options.get("table")]
        for other in dict.fromkeys([*others, sink.source]):
            if other:
                found.setdefault(other, []).append(sink.name)
    return {other: names[0] for other, names in found.items() if len(names) == 1}


def _unknown(what: str, name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
    return f"the pipeline has no {what} {name}; {hint}"


def _moment(given: Moment) -> datetime:
    """A time; without a time zone it is UTC."""
    found = datetime.fromisoformat(given) if isinstance(given, str) else given
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _settings_file(settings: Mapping[str, Value] | None, folder: Path) -> Path | None:
    if not settings:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "client.properties"
    file.touch(mode=0o600)
    file.write_bytes(
        format_properties({name: format_value(value) or "" for name, value in settings.items()})
    )
    return file
