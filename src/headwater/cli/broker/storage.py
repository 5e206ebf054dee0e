"""`headwater storage`: format and inspect the log directories of KRaft nodes."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.common.exceptions import HeadwaterError, InvalidSetting

if TYPE_CHECKING:
    from headwater.common.settings.broker_settings import BrokerSettings
    from headwater.common.settings.quorum_settings import QuorumSettings
    from headwater.metadata.metadata_records import UserScramCredentialRecord

app = typer.Typer(
    no_args_is_help=True, help="Format and inspect the log directories of KRaft nodes."
)

_SCRAM: Final = re.compile(r"(SCRAM-SHA-(?:256|512))=\[(.*)\]")
_ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="Kafka server.properties file.")]


@app.command("random-uuid")
def random_uuid() -> None:
    """Print a random UUID, for example for a cluster id."""
    from headwater.metadata_store.raft import storage_formatter
    from headwater.network.system_clock import SystemRandom

    typer.echo(str(storage_formatter.random_uuid(SystemRandom())))


@app.command("info")
def info(config: _ConfigFile) -> None:
    """Show the log directories of a configuration and their meta.properties."""
    from headwater.storage.io.os_disk import OsDisk
    from headwater.storage.log_manager import meta_properties

    with_errors: list[str] = []
    try:
        settings, quorum = node_settings(config)
        directories = _directories(settings, quorum)
        typer.echo("Found log directories:" if len(directories) > 1 else "Found log directory:")
        for each in directories:
            typer.echo(f"  {each}")
        typer.echo()
        found: dict[str, str] = {}
        for each in directories:
            if not each.is_dir():
                with_errors.append(f"{each} is not a directory")
                continue
            meta = meta_properties.load(OsDisk(), each)
            if meta is None:
                with_errors.append(f"{each} is not formatted.")
            else:
                found = {
                    "cluster.id": meta.cluster_id or "",
                    "directory.id": meta.directory_id or "",
                    "node.id": str(meta.node_id),
                    "version": "1",
                }
        if found:
            shown = ", ".join(f"{name}={value}" for name, value in found.items())
            typer.echo(f"Found metadata: {{{shown}}}")
            typer.echo()
    except HeadwaterError as error:
        _refuse(error)
    if with_errors:
        typer.echo("Found problem:" if len(with_errors) == 1 else "Found problems:")
        for line in with_errors:
            typer.echo(f"  {line}")
        raise typer.Exit(1)


@app.command("format")
def format_directories(
    config: _ConfigFile,
    cluster_id: Annotated[str, typer.Option("--cluster-id", "-t", help="Id of the cluster.")],
    standalone: Annotated[
        bool,
        typer.Option("--standalone", "-s", help="Make this controller the only voter."),
    ] = False,
    no_initial_controllers: Annotated[
        bool,
        typer.Option(
            "--no-initial-controllers", "-N", help="Format a node that joins a dynamic quorum."
        ),
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            "-I",
            help="First voters, the same for all nodes, each as ID@HOST:PORT:DIRECTORY_ID.",
        ),
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", "-f", help="Level of a feature (name=level); repeatable."),
    ] = None,
    release_version: Annotated[
        str | None,
        typer.Option("--release-version", "-r", help="Release of the first feature levels."),
    ] = None,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            "-S",
            # The backslash keeps rich from reading the bracket as markup.
            help="Credential of a first user, for example "
            "'SCRAM-SHA-256=\\[name=alice,password=alice-secret]'; repeatable.",
        ),
    ] = None,
    ignore_formatted: Annotated[
        bool,
        typer.Option("--ignore-formatted", "-g", help="Skip directories that are formatted."),
    ] = False,
) -> None:
    """Format the log directories of a KRaft node."""
    from headwater.metadata_store.raft.metadata_version import KRAFT_VERSION, feature_levels
    from headwater.metadata_store.raft.storage_formatter import (
        FormatRequest,
        InitialController,
        format_storage,
    )
    from headwater.network.system_clock import SystemClock, SystemRandom
    from headwater.storage.io.os_disk import OsDisk

    try:
        settings, quorum = node_settings(config)
        overrides = dict(_feature(each) for each in feature or ())
        controllers = None
        if initial_controllers is not None:
            controllers = tuple(
                InitialController.parse(each) for each in initial_controllers.split(",")
            )
        _check_quorum_options(
            quorum,
            is_controller="controller" in quorum.process_roles,
            options=[standalone, no_initial_controllers, controllers is not None],
            kraft_version=overrides.get(KRAFT_VERSION),
        )
        if controllers is not None and settings.node_id not in [c.node_id for c in controllers]:
            raise InvalidSetting(
                f"--initial-controllers does not have this node, which is {settings.node_id}"
            )
        directories = _directories(settings, quorum)
        lines = format_storage(
            FormatRequest(
                node_id=settings.node_id,
                cluster_id=cluster_id,
                directories=tuple(directories),
                metadata_directory=metadata_directory(settings, quorum),
                features=feature_levels(release_version, overrides),
                scram=tuple(_scram(each) for each in add_scram or ()),
                controller_listener=_controller_listener(quorum),
                initial_controllers=controllers,
                standalone=controller_address(settings, quorum) if standalone else None,
                ignores_formatted=ignore_formatted,
            ),
            disk=OsDisk(),
            random=SystemRandom(),
            now_ms=SystemClock().now_ms(),
        )
    except HeadwaterError as error:
        _refuse(error)
    for line in lines:
        typer.echo(line)


def node_settings(config: Path) -> "tuple[BrokerSettings, QuorumSettings]":
    from headwater.cli.broker.start import read_properties
    from headwater.common.settings.quorum_settings import parse_quorum_settings
    from headwater.common.settings.server_properties import controller_properties
    from headwater.metadata.effective_configs import StaticConfig

    texts = read_properties(config)
    quorum = parse_quorum_settings(texts)
    if not quorum.process_roles:
        raise InvalidSetting(
            "process.roles is not set; only nodes of a cluster without ZooKeeper are formatted"
        )
    return StaticConfig.parse(controller_properties(texts).texts).settings, quorum


def metadata_directory(settings: "BrokerSettings", quorum: "QuorumSettings") -> Path:
    return Path(quorum.metadata_log_dir or (settings.log_dirs or (settings.log_dir,))[0])


def _directories(settings: "BrokerSettings", quorum: "QuorumSettings") -> list[Path]:
    paths = [Path(each) for each in settings.log_dirs or (settings.log_dir,)]
    metadata = metadata_directory(settings, quorum)
    return sorted({*paths, metadata})


def _controller_listener(quorum: "QuorumSettings") -> str | None:
    names = quorum.controller_listener_names
    return names[0].upper() if names else None


def controller_address(settings: "BrokerSettings", quorum: "QuorumSettings") -> tuple[str, int]:
    """Where this controller listens, for the other nodes."""
    from headwater.network.endpoint import parse_endpoints
    from headwater.network.host_name import own_host_name

    for texts in (settings.advertised_listeners or (), settings.listeners):
        for endpoint in parse_endpoints(",".join(texts)) if texts else ():
            if endpoint.name == _controller_listener(quorum):
                is_wildcard = endpoint.host in ("", "0.0.0.0", "::")
                return (own_host_name() if is_wildcard else endpoint.host, endpoint.port)
    raise InvalidSetting("listeners has none of controller.listener.names")


def _check_quorum_options(
    quorum: "QuorumSettings",
    *,
    is_controller: bool,
    options: list[bool],
    kraft_version: int | None,
) -> None:
    """Kafka's rules for static and dynamic quorums."""
    if sum(options) > 1:
        raise InvalidSetting(
            "give only one of --standalone, --initial-controllers and --no-initial-controllers"
        )
    is_dynamic = any(options)
    if quorum.controller_quorum_voters and is_dynamic:
        raise InvalidSetting(
            "You cannot specify controller.quorum.voters and format the node with --standalone, "
            "--initial-controllers, or --no-initial-controllers. If you want a dynamic quorum, "
            "remove controller.quorum.voters and specify controller.quorum.bootstrap.servers "
            "instead."
        )
    if not quorum.controller_quorum_voters and is_controller and not is_dynamic:
        raise InvalidSetting(
            "Because controller.quorum.voters is not set on this controller, you must specify one "
            "of the following: --standalone, --initial-controllers, or --no-initial-controllers."
        )
    if options[0] and not is_controller:
        raise InvalidSetting("--standalone is only for nodes with the role controller")
    if kraft_version == 0 and is_dynamic:
        raise InvalidSetting("a dynamic quorum requires kraft.version 1")
    if kraft_version == 1 and quorum.controller_quorum_voters:
        raise InvalidSetting("kraft.version 1 requires a dynamic quorum")


def _feature(text: str) -> tuple[str, int]:
    name, _, level = text.partition("=")
    if not name or not level.strip().isdecimal():
        raise InvalidSetting(f"--feature {text}: must be name=level")
    return name.strip(), int(level)


def _scram(text: str) -> "UserScramCredentialRecord":
    """Parse Kafka's form of a credential; the password is not repeated in errors."""
    from base64 import b64decode

    from headwater.metadata.metadata_records import UserScramCredentialRecord
    from headwater.network.system_clock import SystemRandom
    from headwater.security.authentication.scram import (
        BY_NAME,
        DEFAULT_ITERATIONS,
        MAX_ITERATIONS,
        MIN_ITERATIONS,
        SALT_BYTES,
        credential_of,
        salted_password,
    )

    found = _SCRAM.fullmatch(text.strip())
    if found is None:
        raise InvalidSetting(
            "--add-scram must be MECHANISM=[name=...,password=...] with SCRAM-SHA-256 or "
            "SCRAM-SHA-512"
        )
    mechanism = BY_NAME[found[1]]
    values = dict(_pair(each) for each in found[2].split(","))
    if "name" not in values or ("password" in values) == ("saltedpassword" in values):
        raise InvalidSetting("--add-scram needs a name and either password or saltedpassword")
    iterations = int(values.get("iterations", DEFAULT_ITERATIONS))
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise InvalidSetting(
            f"--add-scram: iterations must be {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        )
    if "salt" in values:
        salt = b64decode(values["salt"])
    elif "password" in values:
        salt = SystemRandom().bytes(SALT_BYTES)
    else:
        raise InvalidSetting("--add-scram: saltedpassword needs its salt")
    if "password" in values:
        salted = salted_password(mechanism, values["password"], salt, iterations)
    else:
        salted = b64decode(values["saltedpassword"])
    credential = credential_of(mechanism, salted, salt=salt, iterations=iterations)
    return UserScramCredentialRecord(
        name=values["name"],
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(), value.strip().strip('"')


def _refuse(error: HeadwaterError) -> None:
    typer.echo(f"headwater: {error}", err=True)
    raise typer.Exit(1)
