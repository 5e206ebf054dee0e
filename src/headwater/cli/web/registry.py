"""`headwater registry`: run a schema registry, and commands for its clients."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    CommandConfig,
    client_settings,
    exit_on_error,
    registry_settings,
    settings_in,
    show,
    show_done,
)
from headwater.cli.web.http_options import Hosts, HttpConfigFile, Listen, http_address_of

if TYPE_CHECKING:
    from headwater.client.schema_registry import SchemaReference, SchemaRegistry
    from headwater.http_server.http_settings import HttpAddress

CANNOT_START: Final = 2


class SchemaTypeName(StrEnum):
    AVRO = "avro"
    JSON = "json"
    PROTOBUF = "protobuf"


app = typer.Typer(no_args_is_help=True, help="Run a schema registry and manage schemas.")

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        "-u",
        envvar="HEADWATER_REGISTRY",
        help="URL of the registry; default: schema.registry.url of --command-config, or "
        "http://localhost:8081.",
        show_default=False,
    ),
]
DEFAULT_URL: Final = "http://localhost:8081"
DEFAULT_LISTEN: Final = "127.0.0.1:8081"
_KAFKASTORE: Final = "kafkastore."
Brokers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="HEADWATER_BOOTSTRAP",
        help=f"One or more brokers of the cluster; default: {DEFAULT_BOOTSTRAP}.",
        show_default=False,
    ),
]
Subject = Annotated[str, typer.Argument(help="Subject.", show_default=False)]
SchemaFile = Annotated[
    Path, typer.Argument(help="Schema file; - for standard input.", show_default=False)
]
Type = Annotated[
    SchemaTypeName,
    typer.Option("--type", case_sensitive=False, help="Schema type: avro, json or protobuf."),
]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="NAME=SUBJECT:VERSION",
        help="Referenced schema; repeatable.",
    ),
]
Deleted = Annotated[bool, typer.Option("--deleted", help="Include soft-deleted versions.")]


@app.command()
def start(
    bootstrap: Brokers = None,
    listen: Listen = None,
    config: HttpConfigFile = None,
    host: Hosts = None,
    command_config: CommandConfig = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Timeout of writes to the topic.")
    ] = 10.0,
) -> None:
    """Run a registry for Avro, JSON Schema and Protobuf until SIGTERM or Ctrl-C.

    --config accepts the properties file of Confluent's registry. Its `kafkastore.` settings are
    used for the connection to the brokers; --command-config overrides them.
    """
    from headwater.common.exceptions import HeadwaterError

    try:
        given = settings_in(config)
        client = kafkastore_settings(given, bootstrap, command_config)
        known = known_kafkastore(given, client)
        door = http_address_of(given, listen, DEFAULT_LISTEN, others_known=known, hosts=host or ())
        asyncio.run(_run(client, door, timeout))
    except ImportError as error:
        _exit_with(f"{error.name} is not installed: pip install 'headwater[web]'")
    except HeadwaterError as error:
        _exit_with(str(error))


def known_kafkastore(given: Mapping[str, str], client: Mapping[str, object]) -> list[str]:
    """The names in a file that became settings of the registry's Kafka clients."""
    return [name for name in given if name.removeprefix(_KAFKASTORE) in client]


def kafkastore_settings(
    given: Mapping[str, str], bootstrap: str | None, command_config: Path | None
) -> dict[str, object]:
    """Settings of the registry's Kafka clients."""
    from headwater.client.settings import shared_settings

    stored = {
        name.removeprefix(_KAFKASTORE): value
        for name, value in given.items()
        if name.startswith(_KAFKASTORE)
    }
    # Confluent's addresses start with a security protocol, which has its own setting here.
    addresses = ",".join(
        each.strip().rpartition("://")[2] for each in stored.get("bootstrap.servers", "").split(",")
    )
    chosen = bootstrap or addresses or DEFAULT_BOOTSTRAP
    return shared_settings({**stored, **client_settings(chosen, command_config)})


async def expect_broker(client: Mapping[str, object]) -> None:
    """Fail quickly if no broker answers."""
    from headwater.client.aio import Admin
    from headwater.client.errors import KafkaError, KafkaTimeout
    from headwater.client.network.retries import last_kafka_error

    async with Admin({"client.id": "headwater-cli", **client}) as admin:
        try:
            await admin.describe_cluster(timeout=5.0)
        except KafkaTimeout as error:
            raise KafkaError(f"no broker answers: {last_kafka_error(error) or error}") from error


async def _run(client: Mapping[str, object], door: "HttpAddress", timeout_s: float) -> None:
    from headwater.registry.registry_process import serve

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, ended.set)
    await expect_broker(client)
    bootstrap = str(client["bootstrap.servers"])

    def announce(url: str) -> None:
        print(f"headwater registry ready on {url} (brokers {bootstrap})", flush=True)

    await serve(
        bootstrap,
        door,
        ready=announce,
        ended=ended,
        timeout_s=timeout_s,
        client_settings=client,
    )


def _exit_with(reason: str) -> None:
    typer.echo(f"headwater: {reason}", err=True)
    raise typer.Exit(CANNOT_START)


@contextmanager
def _registry(url: str | None, command_config: Path | None) -> "Iterator[SchemaRegistry]":
    from headwater.client.schema_registry import SchemaRegistry
    from headwater.client.serialization.schema_registry_settings import URL

    settings = registry_settings(command_config)
    if url is None and URL not in settings:
        url = DEFAULT_URL
    with exit_on_error(), SchemaRegistry(url, settings) as registry:
        yield registry


@app.command()
def subjects(
    url: Url = None,
    command_config: CommandConfig = None,
    prefix: Annotated[str, typer.Option(help="List only subjects with this prefix.")] = "",
    deleted: Deleted = False,
    as_json: AsJson = False,
) -> None:
    """List subjects."""
    with _registry(url, command_config) as registry:
        found = registry.subjects(prefix=prefix, deleted=deleted)
    show([{"subject": each} for each in found], as_json=as_json, columns=["subject"])


@app.command()
def versions(
    subject: Subject,
    url: Url = None,
    command_config: CommandConfig = None,
    deleted: Deleted = False,
    as_json: AsJson = False,
) -> None:
    """List the versions of a subject, with their ids."""
    with _registry(url, command_config) as registry:
        numbers = registry.versions(subject, deleted=deleted)
        found = [registry.version(subject, each, deleted=deleted) for each in numbers]
    rows = [
        {
            "subject": each.subject,
            "version": each.version,
            "id": each.id,
            "type": each.schema_type,
        }
        for each in found
    ]
    show(rows, as_json=as_json, columns=["subject", "version", "id", "type"])


@app.command("show")
def show_schema(
    subject: Subject,
    version: Annotated[str, typer.Option(help="Version number, or latest.")] = "latest",
    url: Url = None,
    command_config: CommandConfig = None,
    deleted: Deleted = False,
    as_json: AsJson = False,
) -> None:
    """Print a schema."""
    with _registry(url, command_config) as registry:
        found = registry.version(subject, version, deleted=deleted)
    if as_json:
        typer.echo(json.dumps(found.as_json()))
    else:
        typer.echo(_readable(found.schema))


@app.command()
def register(
    subject: Subject,
    file: SchemaFile,
    kind: Type = SchemaTypeName.AVRO,
    reference: References = None,
    url: Url = None,
    command_config: CommandConfig = None,
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Normalize the schema before it is registered.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Register a schema as the next version of a subject and print its id."""
    with _registry(url, command_config) as registry:
        schema_id = registry.register(
            subject,
            _text(file),
            _references(reference),
            schema_type=kind.value.upper(),
            normalize=normalize,
        )
    show([{"subject": subject, "id": schema_id}], as_json=as_json, columns=["subject", "id"])


@app.command()
def delete(
    subject: Subject,
    version: Annotated[
        str | None,
        typer.Option(help="Delete only this version (number or latest). Default: all versions."),
    ] = None,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="Delete permanently what was soft-deleted before.")
    ] = False,
    url: Url = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Soft-delete a subject or a version; delete it permanently with --permanent."""
    with _registry(url, command_config) as registry:
        deleted = registry.delete(subject, version, permanent=permanent)
    show_done([{"subject": subject, "version": each} for each in deleted], as_json=as_json)


@app.command()
def check(
    subject: Subject,
    file: SchemaFile,
    kind: Type = SchemaTypeName.AVRO,
    reference: References = None,
    version: Annotated[
        str | None, typer.Option(help="Check against this version only (number or latest).")
    ] = None,
    url: Url = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Check a schema's compatibility with a subject; exit with 1 if incompatible."""
    with _registry(url, command_config) as registry:
        found = registry.incompatibilities(
            subject,
            _text(file),
            version,
            references=_references(reference),
            schema_type=kind.value.upper(),
        )
    rows: list[dict[str, Any]] = [{"incompatibility": each} for each in found]
    if as_json:
        rows = [{"subject": subject, "is_compatible": not found, "messages": found}]
    if found or as_json:
        show(rows, as_json=as_json, columns=["incompatibility"])
    if found:
        raise typer.Exit(1)


@app.command()
def config(
    subject: Annotated[
        str | None, typer.Argument(help="Subject; default: the global level.", show_default=False)
    ] = None,
    compatibility: Annotated[
        str | None,
        typer.Option(
            "--set", metavar="LEVEL", help="Compatibility level to set. Default: show the level."
        ),
    ] = None,
    url: Url = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show or set the compatibility level."""
    with _registry(url, command_config) as registry:
        if compatibility is not None:
            registry.set_compatibility(compatibility, subject)
        level = registry.compatibility(subject)
    row = {"subject": subject, "compatibility": level}
    show([row], as_json=as_json, columns=["subject", "compatibility"])


def _readable(schema: str) -> str:
    """Indent the schema if it is JSON."""
    try:
        return json.dumps(json.loads(schema), indent=2, ensure_ascii=False)
    except ValueError:
        return schema


def _references(given: list[str] | None) -> "list[SchemaReference]":
    from headwater.client.schema_registry import SchemaReference

    found = []
    for each in given or []:
        # Names of JSON Schema references are URIs and may contain colons; versions do not.
        name, _, place = each.partition("=")
        subject, _, version = place.rpartition(":")
        if not name or not subject or not version.isdecimal():
            raise typer.BadParameter(f"{each}: a reference is NAME=SUBJECT:VERSION")
        found.append(SchemaReference(name=name, subject=subject, version=int(version)))
    return found


def _text(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise typer.BadParameter(f"{file}: {reason}") from None
