"""`headwater connect`: import rows into a topic and export rows, with Spark.

A checkpoint belongs to one import or export. Another one must not use it, or it would continue at
the position of the first.
"""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.spark import cdc, connect_client, connect_worker
from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    check_broker,
    exit_on_error,
    pairs,
    settings_in,
    show,
)

if TYPE_CHECKING:
    from headwater.client import Admin
    from headwater.connect.connector_properties import ErrorTolerance
    from headwater.connect.import_export import AvroValues
    from headwater.spark.formats.avro.avro_options import RegistryAccess


class ValueKind(StrEnum):
    """Format of record values."""

    JSON = "json"
    AVRO = "avro"


app = typer.Typer(no_args_is_help=True, help="Import rows into topics and export them.")
app.add_typer(cdc.app, name="cdc")
app.command("start")(connect_worker.start)
for command in connect_client.COMMANDS:
    app.command()(command)

Connector = Annotated[str, typer.Argument(help="Connector name; see `headwater connect list`.")]
Topic = Annotated[str, typer.Argument(help="Topic name.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="Connector option, name=value; repeatable."),
]
Checkpoint = Annotated[str, typer.Option(help="Checkpoint directory, used by this job only.")]
Key = Annotated[
    str | None, typer.Option(help="Column with the record key. Default: records have no key.")
]
Every = Annotated[
    str | None,
    typer.Option(
        help="Keep running with this trigger interval, such as '10 seconds'. Default: run once."
    ),
]
Format = Annotated[
    ValueKind, typer.Option("--format", help="Format of record values: json or avro.")
]
Registry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        envvar="HEADWATER_REGISTRY",
        help="URL of the schema registry, for Avro.",
    ),
]
Subject = Annotated[
    str | None, typer.Option("--subject", help="Registry subject; default: TOPIC-value.")
]
AvroSchema = Annotated[
    Path | None,
    typer.Option(
        "--avro-schema", help="Avro schema file (.avsc) to use instead of the registry's."
    ),
]
Master = Annotated[str | None, typer.Option(help="Spark master URL; default: local.")]


@app.command("list")
def list_(
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            envvar="HEADWATER_CONNECT",
            help="URL of a Connect worker, to list the connectors that it knows.",
        ),
    ] = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List the installed connectors, or with --url those of a Connect worker."""
    if url is not None:
        api = connect_client.worker_api(url, command_config)
        connect_client.list_connectors(api, as_json=as_json)
        return
    from headwater.connect.connector_registry import SINKS, SOURCES, known

    sources, sinks = known(SOURCES), known(SINKS)
    rows = [
        {"connector": name, "import": name in sources, "export": name in sinks}
        for name in sorted({*sources, *sinks})
    ]
    show(rows, as_json=as_json, columns=["connector", "import", "export"])


@app.command("import")
def import_(
    connector: Connector,
    topic: Topic,
    checkpoint: Checkpoint,
    option: Options = None,
    key: Key = None,
    every: Every = None,
    format_: Format = ValueKind.JSON,
    registry: Registry = None,
    subject: Subject = None,
    avro_schema: AvroSchema = None,
    master: Master = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Import rows into a topic, exactly once."""
    options = pairs(option or [], "--option")
    access = _registry(format_, registry, command_config)
    avro = _avro(access, subject, avro_schema, topic, is_import=True)
    running_every = _every(every)
    _expect_shared(checkpoint, master)
    _expect_legal(topic)
    check_broker(bootstrap, command_config)
    with exit_on_error():
        from headwater.connect.connect_job import run_job
        from headwater.connect.connector_properties import read_connector_properties
        from headwater.connect.connector_registry import open_source
        from headwater.connect.import_export import (
            Running,
            check_key,
            check_own_keys,
            import_rows,
        )

        if connector == "postgresql-cdc":
            # The first argument names the topic or the prefix of topics.
            options.setdefault("topic.prefix", topic)
        # Fail here, before Spark starts.
        own = read_connector_properties(options, is_sink=False).options
        source = open_source(connector, own)
        check_own_keys(source, connector, key, is_avro=avro is not None)
        check_key(key, source.schema().names)
        source.check()
        running = Running(checkpoint=checkpoint, once=every is None, every=running_every)
        rows = run_job(
            lambda spark: import_rows(
                spark,
                connector,
                options,
                bootstrap_servers=bootstrap,
                topic=topic,
                key=key,
                running=running,
                avro=avro,
                settings_file=command_config,
            ),
            master,
        )
    _print_rows(rows, as_json=as_json)


@app.command("export")
def export(
    topic: Topic,
    connector: Connector,
    checkpoint: Checkpoint,
    schema: Annotated[
        str | None,
        typer.Option(help="Columns of JSON values, such as 'id bigint, name string'."),
    ] = None,
    option: Options = None,
    key: Key = None,
    every: Every = None,
    format_: Format = ValueKind.JSON,
    registry: Registry = None,
    subject: Subject = None,
    avro_schema: AvroSchema = None,
    master: Master = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Export the rows of a topic, exactly once."""
    options = pairs(option or [], "--option")
    if key is not None and connector == "postgresql":
        # Deletes and upserts use the same key.
        options.setdefault("key", key)
    running_every = _every(every)
    _expect_shared(checkpoint, master)
    with exit_on_error():
        from headwater.connect.connector_properties import read_connector_properties
        from headwater.connect.connector_registry import open_sink

        properties = read_connector_properties(options, is_sink=True)
        reads_records = open_sink(connector, properties.options).reads_records
    if not reads_records and (schema is None) is (format_ is ValueKind.JSON):
        problem = "is for JSON; Avro uses the registry's" if schema else "is required for JSON"
        raise typer.BadParameter(problem, param_hint="--schema")
    with admin_of(bootstrap, command_config) as admin:
        admin.describe_topics([each.strip() for each in topic.split(",")])
        _create_dead_letter_topic(admin, properties.errors)
    with exit_on_error():
        from headwater.connect.connect_job import run_job
        from headwater.connect.import_export import Running, check_key, export_queries
        from headwater.pipelines.spec.ddl import read_schema

        access = _registry(format_, registry, command_config)
        avro = _avro(access, subject, avro_schema, topic, is_import=False)
        if schema is not None:
            check_key(key, [field.name for field in read_schema(schema)])
        running = Running(checkpoint=checkpoint, once=every is None, every=running_every)
        rows = run_job(
            lambda spark: export_queries(
                spark,
                connector,
                options,
                bootstrap_servers=bootstrap,
                topic=topic,
                schema=schema,
                key=key,
                running=running,
                avro=avro,
                settings_file=command_config,
            ),
            master,
        )
    _print_rows(rows, as_json=as_json)


def _create_dead_letter_topic(admin: "Admin", errors: "ErrorTolerance") -> None:
    """Create the topic of a dead letter queue, with one partition as Connect."""
    from headwater.client import NewTopic

    name = errors.dead_letter_topic
    if name is not None and name not in admin.list_topics():
        factor = errors.replication_factor
        admin.create_topics([NewTopic(name=name, partitions=1, replication_factor=factor)])


def _registry(
    kind: ValueKind, url: str | None, command_config: Path | None
) -> "RegistryAccess | None":
    """Return access to the registry; None if values are JSON."""
    if kind is ValueKind.JSON:
        return None
    with exit_on_error():
        from headwater.spark.formats.avro.avro_options import registry_access

        found = registry_access(settings_in(command_config), url)
    if found is None:
        raise typer.BadParameter(
            "required for Avro, such as http://host:8081", param_hint="--registry"
        )
    return found


def _avro(
    registry: "RegistryAccess | None",
    subject: str | None,
    schema: Path | None,
    topic: str,
    *,
    is_import: bool,
) -> "AvroValues | None":
    """Return the Avro schema of values, checked with the registry; None for JSON."""
    if registry is None:
        return None
    with exit_on_error():
        from headwater.connect.import_export import AvroValues
        from headwater.connect.registry_check import check_registry
        from headwater.spark.formats.avro.avro_options import AvroOptions

        try:
            text = None if schema is None else schema.read_text(encoding="utf-8")
        except OSError as error:
            raise typer.BadParameter(str(error.strerror), param_hint="--avro-schema") from None
        found = AvroOptions(part="value", registry=registry, schema=text, subject=subject)
        check_registry(found, topic, is_import=is_import)
        return AvroValues(registry=registry.url, subject=subject, schema=text)


def _every(text: str | None) -> str:
    """Parse a trigger interval."""
    from headwater.pipelines.spec.durations import duration_ms

    every_ms = 0 if text is None else duration_ms(text)
    if every_ms is None:
        raise typer.BadParameter(
            f"{text!r} is not an interval such as '10 seconds'", param_hint="--every"
        )
    return f"{every_ms} milliseconds"


def _expect_shared(checkpoint: str, master: str | None) -> None:
    """Reject a local checkpoint if executors run on other machines."""
    from headwater.spark.locations import unreachable_reason

    reason = unreachable_reason(checkpoint, master)
    if reason is not None:
        raise typer.BadParameter(reason, param_hint="--checkpoint")


def _expect_legal(topic: str) -> None:
    from headwater.common.topic_names import topic_name_error

    reason = topic_name_error(topic)
    if reason is not None:
        raise typer.BadParameter(reason, param_hint="TOPIC")


def _print_rows(rows: int, *, as_json: bool) -> None:
    words = "1 row" if rows == 1 else f"{rows} rows"
    typer.echo(json.dumps({"rows": rows}) if as_json else words)
