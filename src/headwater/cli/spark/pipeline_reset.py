"""`headwater pipeline reset`: move the checkpoint of a pipeline to other offsets."""

import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.groups.offset_resets import ResetRule, new_offsets, read_csv
from headwater.cli.groups.reset_options import (
    ByDuration,
    FromFile,
    ShiftBy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
)
from headwater.cli.spark.pipeline_bounds import offsets_of
from headwater.cli.spark.pipeline_options import (
    Brokers,
    File,
    Folder,
    now_ms,
    printed_problems,
    runs_folder,
    unchecked_pipeline,
)
from headwater.cli.terminal import AsJson, CommandConfig, exit_on_error, show
from headwater.client import Admin, TopicPartition

if TYPE_CHECKING:
    from headwater.pipelines.checkpoint.checkpoint_storage import CheckpointStorage
    from headwater.pipelines.checkpoint.query_checkpoint import QueryCheckpoint
    from headwater.pipelines.spec.pipeline_spec import PipelineSpec

COLUMNS: Final = ("sink", "topic", "partition", "offset", "new_offset", "effect")


def reset(
    file: File,
    sink: Annotated[
        list[str] | None,
        typer.Option(help="Reset this sink only; repeatable. Default: all.", show_default=False),
    ] = None,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_current: ToCurrent = False,
    to_offset: ToOffset = None,
    to_time: ToTime = None,
    by_duration: ByDuration = None,
    shift_by: ShiftBy = None,
    from_file: FromFile = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Change the checkpoint; without it, a dry run.")
    ] = False,
    bootstrap: Brokers = None,
    command_config: CommandConfig = None,
    runs: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show new offsets for a stopped pipeline; move there with --execute."""
    rule = ResetRule(
        to_earliest=to_earliest, to_latest=to_latest, to_current=to_current, to_offset=to_offset,
        to_time=to_time, by_duration=by_duration, shift_by=shift_by, from_file=from_file,
    )  # fmt: skip
    rule.check()
    rule.target_time_ms(now_ms())
    with exit_on_error(), printed_problems(as_json=as_json):
        from headwater.pipelines.checkpoint.checkpoint_storage import opened_storage
        from headwater.pipelines.run.run_files import AlreadyRunning, RunFile

        spec = unchecked_pipeline(file, bootstrap, command_config)
        refuse_published_run(spec, now_ms())
        with ExitStack() as stack:
            try:
                # Nothing must start while the checkpoint is read and changed.
                stack.enter_context(RunFile(runs_folder(runs), spec.name))
            except AlreadyRunning:
                text = f"the pipeline {spec.name} is running: stop it first"
                raise AlreadyRunning(text) from None
            storage = stack.enter_context(opened_storage(spec.checkpoint, spec.conf))
            resets = planned_resets(spec, rule, sink or [], storage, at_ms=now_ms())
            if execute:
                execute_resets(resets, storage)
    rows = [row for each in resets for row in each.rows()]
    show(rows, as_json=as_json, columns=COLUMNS)
    if not execute:
        text = "Dry run: no checkpoint was changed. Use --execute to change it."
        typer.echo(text, err=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkReset:
    """The new offsets of one query."""

    sink: str
    checkpoint: "QueryCheckpoint"
    target: Mapping[TopicPartition, int]

    def rows(self) -> list[dict[str, object]]:
        before = self.checkpoint.offsets
        effect = "new checkpoint, without state" if self.checkpoint.has_state else "same checkpoint"
        return [
            {
                "sink": self.sink,
                "topic": each.topic,
                "partition": each.partition,
                "offset": before.get(each),
                "new_offset": offset,
                "effect": effect,
            }
            for each, offset in sorted(self.target.items())
        ]


def planned_resets(
    spec: "PipelineSpec",
    rule: ResetRule,
    names: list[str],
    storage: "CheckpointStorage",
    *,
    at_ms: int,
) -> list[SinkReset]:
    """Return what a reset would do to each query; changes nothing."""
    from headwater.pipelines.checkpoint.query_checkpoint import read_checkpoint
    from headwater.spark.exceptions import InvalidOption

    known = [*(each.name for each in spec.sinks), *_dead_letters(spec)]
    for name in names:
        if name not in known:
            raise InvalidOption(f"there is no sink {name}; there are {', '.join(known)}")
    found = []
    for name in names or known:
        checkpoint = read_checkpoint(storage, f"{spec.name}/{name}")
        if checkpoint is None:
            typer.echo(
                f"headwater: {name} has no checkpoint: it starts at startingOffsets", err=True
            )
            continue
        _refuse_files_with_state(spec, name, checkpoint)
        if not checkpoint.is_committed:
            typer.echo(
                f"headwater: {name}: batch {checkpoint.batch_id} was not finished; "
                "a reset leaves it as far as it is written",
                err=True,
            )
        target = _target(spec, rule, checkpoint.offsets, at_ms=at_ms)
        found.append(SinkReset(sink=name, checkpoint=checkpoint, target=target))
    return found


def execute_resets(resets: list[SinkReset], storage: "CheckpointStorage") -> None:
    """Move the checkpoints. The caller holds the lock of the run."""
    from headwater.pipelines.checkpoint.query_checkpoint import move

    for each in resets:
        kept = move(storage, each.checkpoint, each.target, query_id=str(uuid.uuid4()))
        if kept is not None:
            typer.echo(f"headwater: {each.sink}: the former checkpoint is {kept}", err=True)


def refuse_published_run(spec: "PipelineSpec", at_ms: int) -> None:
    """Refuse if a run on another machine is published as running."""
    from headwater.client.settings import shared_settings
    from headwater.pipelines.check.topic_options import topic_options
    from headwater.pipelines.run.run_files import AlreadyRunning
    from headwater.pipelines.run.run_records import TOPIC
    from headwater.pipelines.run.run_topic import RunTopic
    from headwater.spark.sink.sink_options import read_sink_options

    if spec.bootstrap is None:
        return
    options = read_sink_options(topic_options(spec, {"topic": TOPIC}), is_streaming=True)
    with RunTopic(shared_settings(options.client)) as topic:
        run = topic.refresh().runs.get(spec.name)
    if run is not None and run.is_alive(at_ms):
        raise AlreadyRunning(f"the pipeline {spec.name} runs on {run.host}: stop it first")


def _target(
    spec: "PipelineSpec", rule: ResetRule, before: Mapping[TopicPartition, int], *, at_ms: int
) -> dict[TopicPartition, int]:
    from headwater.client.settings import shared_settings
    from headwater.pipelines.check.pipeline_check import source_options
    from headwater.spark.exceptions import InvalidOption

    given = {} if rule.from_file is None else read_csv(rule.from_file, spec.name)
    topics = {each.topic for each in before}
    found: dict[TopicPartition, int] = {}
    for source in spec.sources:
        if not source.is_topic or source.is_table:
            continue
        options = source_options(source, spec)
        with ExitStack() as stack:
            partitions = stack.enter_context(offsets_of(options)).partitions()
            places = [each for each in partitions if each.topic in topics and each not in found]
            if not places:
                continue
            missing = [each for each in places if each not in given]
            if rule.from_file is not None and missing:
                raise InvalidOption(f"{rule.from_file} says nothing of {missing[0]}")
            admin = stack.enter_context(Admin(shared_settings(options.client)))
            known = {each: before[each] for each in places if each in before}
            chosen = {each: given[each] for each in places if each in given}
            # A partition that the query does not know yet has no offset to keep or shift.
            if rule.to_current or rule.shift_by is not None:
                places = [each for each in places if each in known]
            found |= new_offsets(admin, rule, chosen, places, known, now_ms=at_ms)
    return found


def _refuse_files_with_state(
    spec: "PipelineSpec", name: str, checkpoint: "QueryCheckpoint"
) -> None:
    from headwater.pipelines.run.bounded_run import FILE_FORMATS
    from headwater.spark.exceptions import InvalidOption

    for sink in spec.sinks:
        is_file = sink.connector is None and sink.format in FILE_FORMATS
        if sink.name == name and is_file and checkpoint.has_state:
            raise InvalidOption(
                f"the sink {name} has state and writes files to {sink.options.get('path')}: "
                "without its checkpoint Spark would skip its first batches there; give it another "
                "name and path instead"
            )


def _dead_letters(spec: "PipelineSpec") -> list[str]:
    from headwater.pipelines.run.pipeline_run import DEAD_LETTERS

    if spec.dead_letter is None:
        return []
    return [DEAD_LETTERS + each.name for each in spec.sources if each.key or each.value]
