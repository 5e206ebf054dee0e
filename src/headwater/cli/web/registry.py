"""`headwater registry`: a schema registry as a process, and commands that ask one."""

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
    failing_clearly,
    registry_settings,
    settings_in,
    show,
    tell_done,
)
from headwater.cli.web.http_options import DoorConfig, Hosts, Listen, http_address_of

if TYPE_CHECKING:
    from headwater.client.schema_registry import SchemaReference, SchemaRegistry
    from headwater.http_server.http_settings import HttpAddress

CANNOT_START: Final = 2


class SchemaTypeName(StrEnum):
    AVRO = "avro"
    JSON = "json"


app = typer.Typer(no_args_is_help=True, help="A schema registry, and the schemas in it.")

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        "-u",
        envvar="HEADWATER_REGISTRY",
        help="Where the registry is; else schema.registry.url of the settings, or this machine.",
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
        help=f"Brokers to begin with, as host:port, parted by commas; {DEFAULT_BOOTSTRAP}.",
        show_default=False,
    ),
]
Subject = Annotated[str, typer.Argument(help="The subject.", show_default=False)]
SchemaFile = Annotated[
    Path, typer.Argument(help="A file with a schema; - for standard input.", show_default=False)
]
Type = Annotated[
    SchemaTypeName, typer.Option("--type", case_sensitive=False, help="What kind of schema it is.")
]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="NAME=SUBJECT:VERSION",
        help="A schema that this one names; may be given several times.",
    ),
]
Deleted = Annotated[bool, typer.Option("--deleted", help="What was deleted softly, too.")]


@app.command()
def start(
    bootstrap: Brokers = None,
    listen: Listen = None,
    config: DoorConfig = None,
    host: Hosts = None,
    command_config: CommandConfig = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="How long a write may take.")
    ] = 10.0,
) -> None:
    """Run a schema registry for Avro and JSON Schema, until SIGTERM or Ctrl-C.

    The file of --config may be that of Confluent's registry; settings for brokers stand in it
    behind `kafkastore.`, and those of --command-config win.
    """
    from headwater.common.exceptions import HeadwaterError

    try:
        given = settings_in(config)
        client = _client(given, bootstrap, command_config)
        known = [name for name in given if name.removeprefix(_KAFKASTORE) in client]
        door = http_address_of(given, listen, DEFAULT_LISTEN, others_known=known, hosts=host or ())
        asyncio.run(_run(client, door, timeout))
    except ImportError as error:
        _complain(f"{error.name} is missing; pip install 'headwater[web]' has it")
    except HeadwaterError as error:
        _complain(str(error))


def _client(
    given: Mapping[str, str], bootstrap: str | None, command_config: Path | None
) -> dict[str, object]:
    """The settings of the registry's clients of brokers."""
    from headwater.client.settings import shared_settings

    said = {
        name.removeprefix(_KAFKASTORE): value
        for name, value in given.items()
        if name.startswith(_KAFKASTORE)
    }
    # Confluent's addresses have the protocol before them, which has a setting of its own.
    there = ",".join(
        each.strip().rpartition("://")[2] for each in said.get("bootstrap.servers", "").split(",")
    )
    chosen = bootstrap or there or DEFAULT_BOOTSTRAP
    return shared_settings({**said, **client_settings(chosen, command_config)})


async def _run(client: Mapping[str, object], door: "HttpAddress", timeout_s: float) -> None:
    from headwater.client.aio import Admin
    from headwater.client.errors import KafkaError, KafkaTimeout
    from headwater.client.network.retries import said_before
    from headwater.registry.registry_process import serve

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, ended.set)
    async with Admin({"client.id": "headwater-cli", **client}) as admin:
        try:
            await admin.describe_cluster(timeout=5.0)
        except KafkaTimeout as error:
            raise KafkaError(f"no broker answers: {said_before(error) or error}") from error
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


def _complain(reason: str) -> None:
    typer.echo(f"headwater: {reason}", err=True)
    raise typer.Exit(CANNOT_START)


@contextmanager
def _registry(url: str | None, command_config: Path | None) -> "Iterator[SchemaRegistry]":
    from headwater.client.schema_registry import SchemaRegistry
    from headwater.client.serialization.schema_registry_settings import URL

    settings = registry_settings(command_config)
    if url is None and URL not in settings:
        url = DEFAULT_URL
    with failing_clearly(), SchemaRegistry(url, settings) as registry:
        yield registry


@app.command()
def subjects(
    url: Url = None,
    command_config: CommandConfig = None,
    prefix: Annotated[str, typer.Option(help="Only those that begin so.")] = "",
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
    version: Annotated[str, typer.Option(help="A number, or latest.")] = "latest",
    url: Url = None,
    command_config: CommandConfig = None,
    deleted: Deleted = False,
    as_json: AsJson = False,
) -> None:
    """Show a schema."""
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
    normalize: Annotated[bool, typer.Option("--normalize", help="Order what has none.")] = False,
    as_json: AsJson = False,
) -> None:
    """Register a schema as the next version of a subject, and show its id."""
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
    version: Annotated[str | None, typer.Option(help="Only this one; or latest.")] = None,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="For good, what was deleted softly before.")
    ] = False,
    url: Url = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete a subject, or one of its versions: softly, then with --permanent for good."""
    with _registry(url, command_config) as registry:
        gone = registry.delete(subject, version, permanent=permanent)
    tell_done([{"subject": subject, "version": each} for each in gone], as_json=as_json)


@app.command()
def check(
    subject: Subject,
    file: SchemaFile,
    kind: Type = SchemaTypeName.AVRO,
    reference: References = None,
    version: Annotated[str | None, typer.Option(help="Against this one only; or latest.")] = None,
    url: Url = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Whether a schema could be the next version; exits with 1 if not."""
    with _registry(url, command_config) as registry:
        found = registry.complaints(
            subject,
            _text(file),
            version,
            references=_references(reference),
            schema_type=kind.value.upper(),
        )
    rows: list[dict[str, Any]] = [{"complaint": each} for each in found]
    if as_json:
        rows = [{"subject": subject, "is_compatible": not found, "messages": found}]
    if found or as_json:
        show(rows, as_json=as_json, columns=["complaint"])
    if found:
        raise typer.Exit(1)


@app.command()
def config(
    subject: Annotated[
        str | None, typer.Argument(help="The subject; all without one.", show_default=False)
    ] = None,
    compatibility: Annotated[
        str | None, typer.Option("--set", metavar="LEVEL", help="A new compatibility level.")
    ] = None,
    url: Url = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show which compatibility level is in force, or set one."""
    with _registry(url, command_config) as registry:
        if compatibility is not None:
            registry.set_compatibility(compatibility, subject)
        level = registry.compatibility(subject)
    row = {"subject": subject, "compatibility": level}
    show([row], as_json=as_json, columns=["subject", "compatibility"])


def _readable(schema: str) -> str:
    """Indented, if it is JSON; other types have texts of their own."""
    try:
        return json.dumps(json.loads(schema), indent=2, ensure_ascii=False)
    except ValueError:
        return schema


def _references(given: list[str] | None) -> "list[SchemaReference]":
    from headwater.client.schema_registry import SchemaReference

    found = []
    for each in given or []:
        # Names of JSON Schemas are addresses and may have colons, versions have none.
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
        reason = error.strerror if isinstance(error, OSError) else "no text"
        raise typer.BadParameter(f"{file}: {reason}") from None
