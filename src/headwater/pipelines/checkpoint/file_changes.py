"""Compare a pipeline's file with the one that its checkpoint belongs to.

A checkpoint has the offsets of a query's sources by their position, and the state of its operators
by their position and schema. Spark resumes a query that differs in other respects. After some
changes it fails with a stack trace, after others it continues with wrong results. The rules here
are those of Spark's documentation on recovery after changes, applied to a pipeline file.

The description that is stored beside the checkpoint has, per sink, everything that the rules need,
and no secrets: client settings in the options of topics are left out.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from headwater.pipelines.check.step_graph import in_order
from headwater.pipelines.checkpoint.checkpoint_storage import CheckpointStorage
from headwater.pipelines.run.bounded_run import FILE_FORMATS
from headwater.pipelines.spec.document import InvalidPipeline, Place
from headwater.pipelines.spec.load_document import load_document
from headwater.pipelines.spec.pipeline_spec import PipelineSpec, SinkSpec, SourceSpec, StepSpec

FILE: Final = "_pipeline.json"
_VERSION: Final = 1
_CLIENT: Final = "kafka."
_SECRET: Final = re.compile(r"password|secret|token|credential", re.IGNORECASE)
_STATE_CONF: Final = "spark.sql.streaming.stateStore.providerClass"
_SHUFFLES: Final = "spark.sql.shuffle.partitions"
_STARTS: Final = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
_TASKS: Final = ("minPartitions", "maxRecordsPerPartition")
_TOKENS: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|[\w.]+|\S")
_AFTER_WHERE: Final = frozenset({"group", "having", "order", "limit", "window", "union", "sort"})

Description = Mapping[str, Any]


class Effect(Enum):
    """Consequence of a change for the checkpoint of a sink."""

    KEEPS = "keeps the checkpoint"
    # Spark detects it when it plans the query, or the user has to know.
    MAY_BREAK = "may break the checkpoint"
    BREAKS = "needs a new checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One difference between two versions of a pipeline's file."""

    sink: str
    effect: Effect
    text: str
    place: Place

    def __str__(self) -> str:
        return f"{self.sink}: {self.text}: {self.effect.value}"


def described(spec: PipelineSpec) -> Description:
    """Return the description of a pipeline that is stored."""
    return {
        "version": _VERSION,
        "bootstrap": spec.bootstrap,
        "conf": {name: spec.conf[name] for name in (_SHUFFLES, _STATE_CONF) if name in spec.conf},
        "sinks": {sink.name: _described_sink(sink, spec) for sink in spec.sinks},
    }


def read_description(storage: CheckpointStorage, name: str) -> Description | None:
    """Return the description that a checkpoint has of its pipeline, if any."""
    try:
        found = json.loads(storage.read(f"{name}/{FILE}") or "null")
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("version") == _VERSION else None


def write_description(storage: CheckpointStorage, spec: PipelineSpec) -> None:
    text = json.dumps(described(spec), indent=1, sort_keys=True)
    if storage.read(f"{spec.name}/{FILE}") != text:
        storage.write(f"{spec.name}/{FILE}", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """The sinks of a pipeline that have planned a batch, and those of them with state."""

    started: frozenset[str]
    with_state: frozenset[str] = frozenset()


def read_checkpoints(storage: CheckpointStorage, name: str) -> Checkpoints:
    sinks = storage.names(name)
    return Checkpoints(
        started=frozenset(each for each in sinks if storage.names(f"{name}/{each}/offsets")),
        with_state=frozenset(each for each in sinks if "state" in storage.names(f"{name}/{each}")),
    )


def file_changes(storage: CheckpointStorage, spec: PipelineSpec) -> list[FileChange] | None:
    """Return changes since the last use of the checkpoint; None without a checkpoint."""
    before = read_description(storage, spec.name)
    if before is None:
        return None
    return list(changes(before, spec, read_checkpoints(storage, spec.name)))


def refuse_incompatible(storage: CheckpointStorage, spec: PipelineSpec) -> None:
    """Raise `InvalidPipeline` for changes that need a new checkpoint."""
    broken = [each for each in file_changes(storage, spec) or [] if each.effect is Effect.BREAKS]
    if broken:
        document = load_document(spec.file)
        raise InvalidPipeline([document.problem(each.place, str(each)) for each in broken])


def changes(
    before: Description, spec: PipelineSpec, checkpoints: Checkpoints
) -> Iterator[FileChange]:
    """Return all differences that concern a checkpoint."""
    now = described(spec)
    places = {sink.name: sink.place for sink in spec.sinks}
    for name, sink in now["sinks"].items():
        former = before["sinks"].get(name)
        if former is None or name not in checkpoints.started:
            yield FileChange(
                sink=name,
                effect=Effect.KEEPS,
                text="the sink is new and starts at startingOffsets",
                place=places[name],
            )
            continue
        has_state = name in checkpoints.with_state
        rules = _Comparison(sink=name, has_state=has_state, place=places[name])
        yield from rules.of_pipeline(before, now)
        yield from rules.of_sink(former, sink)
    for name in before["sinks"]:
        if name not in now["sinks"] and name in checkpoints.started:
            yield FileChange(
                sink=name,
                effect=Effect.KEEPS,
                text="the sink is gone, and its checkpoint is not used (a sink that was renamed "
                f"continues with name: {name})",
                place=("sinks",),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """The rules for one sink."""

    sink: str
    has_state: bool
    place: Place

    def of_pipeline(self, before: Description, now: Description) -> Iterator[FileChange]:
        if before["bootstrap"] != now["bootstrap"]:
            text = (
                f"bootstrap was {before['bootstrap']}: offsets are valid if it is the same cluster"
            )
            yield self._change(Effect.MAY_BREAK, text, ("bootstrap",))
        conf = ("session", "conf")
        if self.has_state and before["conf"].get(_STATE_CONF) != now["conf"].get(_STATE_CONF):
            yield self._change(Effect.BREAKS, f"{_STATE_CONF} differs, and there is state", conf)
        if self.has_state and before["conf"].get(_SHUFFLES) != now["conf"].get(_SHUFFLES):
            text = f"{_SHUFFLES} stays what it was when the state was made"
            yield self._change(Effect.KEEPS, text, conf)

    def of_sink(self, before: Description, now: Description) -> Iterator[FileChange]:
        yield from self._of_target(before, now)
        yield from self._of_sources(before["sources"], now["sources"])
        yield from self._of_steps(before["steps"], now["steps"])
        if before["from"] != now["from"] and not self._has_same_steps(before, now):
            text = f"it writes {now['from']} instead of {before['from']}"
            effect = Effect.BREAKS if self.has_state else Effect.KEEPS
            yield self._change(effect, text, (*self.place, "from"))

    def _of_target(self, before: Description, now: Description) -> Iterator[FileChange]:
        if before["mode"] != now["mode"]:
            effect = Effect.BREAKS if self.has_state else Effect.KEEPS
            text = f"mode was {before['mode']}"
            yield self._change(effect, text, (*self.place, "mode"))
        kinds = before["kind"], now["kind"]
        if kinds[0] != kinds[1]:
            text = f"it writes {kinds[1]} instead of {kinds[0]}"
            effect = Effect.BREAKS if kinds[1] in FILE_FORMATS else Effect.KEEPS
            yield self._change(effect, text, self.place)
        elif before["target"] != now["target"]:
            text = f"it writes to {now['target']} instead of {before['target']}"
            if kinds[1] in FILE_FORMATS:
                yield self._change(
                    Effect.BREAKS,
                    f"{text}, where the log of its files is missing",
                    (*self.place, "path"),
                )
            else:
                yield self._change(Effect.KEEPS, text, self.place)

    def _of_sources(
        self, before: Mapping[str, Description], now: Mapping[str, Description]
    ) -> Iterator[FileChange]:
        if list(before) != list(now):
            text = f"it reads {_list(now)} instead of {_list(before)}"
            same = sorted(before) == sorted(now)
            # Stored by position, so sources of other topics cannot be told apart.
            effect = Effect.BREAKS if not same or len(now) > 1 else Effect.KEEPS
            yield self._change(effect, text, ("sources",))
            return
        for name, source in now.items():
            yield from self._of_source(name, before[name], source)

    def _of_source(self, name: str, before: Description, now: Description) -> Iterator[FileChange]:
        place: Place = ("sources", name)
        if before["kind"] != now["kind"]:
            text = f"the source {name} is {now['kind']} instead of {before['kind']}"
            yield self._change(Effect.BREAKS, text, place)
            return
        old, new = before["options"], now["options"]
        yield from self._of_subscription(name, old, new)
        for option in sorted(old.keys() | new.keys()):
            if old.get(option) == new.get(option) or option in ("subscribe", "assign"):
                continue
            at = (*place, option) if option in new else place
            if option in _STARTS:
                text = f"{option} of {name} is for new checkpoints only"
                yield self._change(Effect.KEEPS, text, at)
            elif option in _TASKS:
                text = f"{option} of {name} differs, and a batch that was not finished is repeated"
                yield self._change(Effect.MAY_BREAK, f"{text} with other tasks", at)
            elif now["kind"] == "topic":
                yield self._change(Effect.KEEPS, f"{option} of {name} differs", at)
            else:
                yield self._change(Effect.MAY_BREAK, f"{option} of {name} differs", at)
        for word in ("decode", "table", "transforms"):
            # A description of an earlier version has no transforms.
            if before.get(word) != now.get(word):
                effect = Effect.MAY_BREAK if self.has_state else Effect.KEEPS
                yield self._change(effect, f"{word} of {name} differs", place)
        yield from self._of_watermark(f"the source {name}", before, now, place)

    def _of_subscription(
        self, name: str, old: Mapping[str, str], new: Mapping[str, str]
    ) -> Iterator[FileChange]:
        place: Place = ("sources", name, "subscribe")
        topics = [
            [each.strip() for each in options.get("subscribe", "").split(",") if each.strip()]
            for options in (old, new)
        ]
        for topic in topics[1]:
            if topic not in topics[0]:
                text = f"{name} reads {topic} too, from its earliest offset"
                yield self._change(Effect.KEEPS, text, place)
        for topic in topics[0]:
            if topic not in topics[1]:
                text = f"{name} does not read {topic} any more, which its offsets are about"
                yield self._change(Effect.BREAKS, text, place)
        if old.get("assign") != new.get("assign"):
            text = f"{name} reads other partitions"
            yield self._change(Effect.BREAKS, text, ("sources", name, "assign"))

    def _of_steps(
        self, before: Mapping[str, Description], now: Mapping[str, Description]
    ) -> Iterator[FileChange]:
        if not self.has_state:
            return
        for name in sorted(before.keys() | now.keys()):
            if name not in now or name not in before:
                text = f"the step {name} is {'gone' if name not in now else 'new'}"
                yield self._change(Effect.BREAKS, f"{text}, and there is state", ("steps",))
                continue
            yield from self._of_step(name, before[name], now[name])

    def _of_step(self, name: str, before: Description, now: Description) -> Iterator[FileChange]:
        place: Place = ("steps", name)
        if before["python"] != now["python"]:
            text = f"the Python of the step {name} differs, and there is state"
            yield self._change(Effect.MAY_BREAK, text, (*place, "python"))
        old, new = before["sql"], now["sql"]
        if _tokens(old) != _tokens(new):
            if _without_filter(old) == _without_filter(new):
                text = f"only the filter of the step {name} differs: state keeps what passed before"
                yield self._change(Effect.KEEPS, text, (*place, "sql"))
            else:
                text = f"the query of the step {name} differs, and there is state"
                yield self._change(Effect.BREAKS, text, (*place, "sql"))
        yield from self._of_watermark(f"the step {name}", before, now, place)

    def _of_watermark(
        self, what: str, before: Description, now: Description, place: Place
    ) -> Iterator[FileChange]:
        old, new = before["watermark"], now["watermark"]
        if old == new:
            return
        if not self.has_state:
            yield self._change(Effect.KEEPS, f"the watermark of {what} differs", place)
        elif old is None or new is None or old[0] != new[0]:
            text = f"the watermark of {what} is on another column, and there is state"
            yield self._change(Effect.BREAKS, text, place)
        else:
            text = f"the watermark of {what} waits for another time"
            yield self._change(Effect.KEEPS, text, place)

    def _has_same_steps(self, before: Description, now: Description) -> bool:
        """Whether a step was only renamed."""
        return sorted(map(_body, before["steps"].values())) == sorted(
            map(_body, now["steps"].values())
        )

    def _change(self, effect: Effect, text: str, place: Place) -> FileChange:
        return FileChange(sink=self.sink, effect=effect, text=text, place=place)


def _described_sink(sink: SinkSpec, spec: PipelineSpec) -> Description:
    sources, steps = _upstream(sink.source, spec)
    return {
        "from": sink.source,
        "mode": sink.mode.value,
        "kind": sink.connector or ("topic" if sink.is_topic else sink.format),
        "target": _target(sink),
        "sources": {each.name: _described_source(each) for each in sources},
        "steps": {each.name: _described_step(each) for each in steps},
    }


def _described_source(source: SourceSpec) -> Description:
    parts = {"key": source.key, "value": source.value}
    return {
        "kind": source.connector or ("topic" if source.is_topic else source.format),
        "table": source.is_table,
        "options": {
            name: text
            for name, text in source.options.items()
            if not name.lower().startswith(_CLIENT) and _SECRET.search(name) is None
        },
        "decode": {
            part: [each.coding.value, each.schema]
            for part, each in parts.items()
            if each is not None
        },
        "watermark": _watermark(source),
        **({"transforms": _transforms(source)} if source.transforms else {}),
    }


def _transforms(source: SourceSpec) -> list[object]:
    return [
        [
            each.kind,
            each.part,
            dict(each.config),
            None if each.predicate is None else [each.predicate.kind, dict(each.predicate.config)],
            each.is_negated,
        ]
        for each in source.transforms
    ]


def _described_step(step: StepSpec) -> Description:
    return {"sql": step.sql, "python": _python(step), "watermark": _watermark(step)}


def _watermark(what: SourceSpec | StepSpec) -> list[object] | None:
    found = what.watermark
    return None if found is None else [found.column, found.delay_ms]


def _python(step: StepSpec) -> str | None:
    """The function, and a hash of the file that it is in."""
    if step.python is None:
        return None
    file = step.python.file
    return f"{step.python.function} {'' if file is None else _hash(file)}"


def _hash(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return "missing"


def _target(sink: SinkSpec) -> str | None:
    for name in ("topic", "path", "table", "url"):
        if name in sink.options and _SECRET.search(sink.options[name]) is None:
            return sink.options[name]
    return None


def _upstream(name: str, spec: PipelineSpec) -> tuple[list[SourceSpec], list[StepSpec]]:
    """Return the sources and steps of a sink's query, in its order."""
    wanted = {name.lower()}
    steps: list[StepSpec] = []
    for step in reversed(in_order(spec)):
        if step.name.lower() in wanted:
            steps.insert(0, step)
            wanted |= {each.lower() for each in step.inputs}
    order = [each.lower() for step in steps for each in step.inputs] or [name.lower()]
    sources = [each for each in spec.sources if each.name.lower() in wanted]
    return sorted(sources, key=lambda each: order.index(each.name.lower())), steps


def _tokens(sql: str | None) -> list[str]:
    """Return the words of a query without comments, in lower case."""
    found = _TOKENS.findall(sql or "")
    return [
        each if each[0] in "'\"`" else each.lower() for each in found if not each.startswith("--")
    ]


def _without_filter(sql: str | None) -> list[str]:
    """The words of a query without its outermost WHERE clause."""
    kept: list[str] = []
    depth, is_filter = 0, False
    for word in _tokens(sql):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word == "where":
            is_filter = True
        elif depth == 0 and word in _AFTER_WHERE:
            is_filter = False
        if not is_filter:
            kept.append(word)
    return kept


def _body(step: Description) -> str:
    return json.dumps([_tokens(step["sql"]), step["python"], step["watermark"]])


def _list(names: Mapping[str, object]) -> str:
    return ", ".join(names) or "nothing"
