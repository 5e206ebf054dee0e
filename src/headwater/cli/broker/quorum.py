"""`headwater cluster quorum`: describe the KRaft quorum, add and remove voters."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    show,
    show_done,
)
from headwater.cli.times import short_duration

if TYPE_CHECKING:
    from headwater.client import Admin, RaftVoterEndpoint
    from headwater.client.admin.quorum_calls import QuorumInfo, QuorumReplica
    from headwater.common.ids import TopicId

_UNKNOWN: Final = -1
_STATUS_COLUMNS: Final = (
    "leader",
    "epoch",
    "high_watermark",
    "max_follower_lag",
    "max_follower_lag_ms",
    "voters",
    "observers",
)
_REPLICATION_COLUMNS: Final = (
    "node",
    "directory",
    "status",
    "endpoints",
    "log_end_offset",
    "lag",
    "last_fetch",
    "last_caught_up",
)
_DirectoryId = Annotated[
    str | None,
    typer.Option(
        "--directory-id",
        help="directory.id in meta.properties of the node's metadata log directory; by default "
        "the one that the quorum knows.",
    ),
]

app = typer.Typer(
    no_args_is_help=True, help="Describe the KRaft quorum of a cluster and change its voters."
)


@app.command()
def describe(
    status: Annotated[
        bool, typer.Option("--status", help="Leader, epoch, lag and members (the default).")
    ] = False,
    replication: Annotated[
        bool, typer.Option("--replication", help="Log end offset and lag of each replica.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of the quorum, or with --replication that of its replicas."""
    if status and replication:
        raise typer.BadParameter("give only one of --status and --replication")
    with _quorum_of(bootstrap, command_config) as admin:
        quorum = admin.describe_metadata_quorum()
        cluster_id = admin.describe_cluster().cluster_id
    if replication:
        show(_replication_rows(quorum), as_json=as_json, columns=_REPLICATION_COLUMNS)
    else:
        show([_status_row(quorum, cluster_id)], as_json=as_json, columns=_STATUS_COLUMNS)


@app.command("add-voter")
def add_voter(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help="server.properties file of the controller, on its machine; has id, directory id "
            "and endpoint.",
        ),
    ] = None,
    node_id: Annotated[
        int | None, typer.Option("--id", metavar="N", min=0, help="Node id, without --config.")
    ] = None,
    directory_id: _DirectoryId = None,
    endpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--endpoint",
            metavar="LISTENER://HOST:PORT",
            help="Controller listener, such as CONTROLLER://c4:9093, without --config; repeatable.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Make a running controller that observes the metadata log a voter."""
    with _quorum_of(bootstrap, command_config) as admin:
        if config is not None:
            if node_id is not None or endpoint or directory_id is not None:
                raise typer.BadParameter("give --config, or --id and --endpoint")
            node_id, directory, endpoints = _voter_in(config)
        elif node_id is None or not endpoint:
            raise typer.BadParameter("give --config, or --id and --endpoint")
        else:
            endpoints = _endpoints(endpoint)
            directory = _directory(
                directory_id,
                node_id,
                "observers",
                lambda: admin.describe_metadata_quorum().observers,
            )
        admin.add_raft_voter(node_id, directory, endpoints)
    row = {
        "node": node_id,
        "directory": str(directory),
        "endpoints": [str(each) for each in endpoints],
    }
    show_done([row], as_json=as_json)


@app.command("remove-voter")
def remove_voter(
    node_id: Annotated[int, typer.Option("--id", metavar="N", min=0, help="Node id of the voter.")],
    directory_id: _DirectoryId = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Remove a voter, for example one whose disk is lost."""
    with _quorum_of(bootstrap, command_config) as admin:
        directory = _directory(
            directory_id, node_id, "voters", lambda: admin.describe_metadata_quorum().voters
        )
        admin.remove_raft_voter(node_id, directory)
    show_done([{"node": node_id, "directory": str(directory)}], as_json=as_json)


@contextmanager
def _quorum_of(bootstrap: str, command_config: Path | None) -> "Iterator[Admin]":
    """An admin client; brokers without a quorum are reported as such."""
    from headwater.client.errors import UnsupportedVersion
    from headwater.common.exceptions import InvalidSetting

    with admin_of(bootstrap, command_config) as admin:
        try:
            yield admin
        except UnsupportedVersion as error:
            if "support a required version" not in str(error):
                raise
            raise InvalidSetting(
                "the cluster has no KRaft quorum: it uses ZooKeeper or is a standalone broker"
            ) from error


def _status_row(quorum: "QuorumInfo", cluster_id: str) -> dict[str, object]:
    leader = _leader(quorum)
    followers = [each for each in quorum.voters if each.replica_id != quorum.leader_id]
    lag = lag_ms = 0
    if leader is not None and followers:
        lag = max(leader.log_end_offset - each.log_end_offset for each in followers)
        # As kafka-metadata-quorum: the time since the slowest voter had all records.
        slowest_ms = min(each.last_caught_up_timestamp for each in followers)
        is_unknown = slowest_ms == _UNKNOWN
        lag_ms = _UNKNOWN if is_unknown else leader.last_caught_up_timestamp - slowest_ms
    return {
        "cluster": cluster_id,
        "leader": quorum.leader_id,
        "epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "max_follower_lag": lag,
        "max_follower_lag_ms": max(lag_ms, _UNKNOWN),
        "voters": [each.replica_id for each in quorum.voters],
        "observers": [each.replica_id for each in quorum.observers],
    }


def _replication_rows(quorum: "QuorumInfo") -> list[dict[str, object]]:
    leader = _leader(quorum)
    end_offset = quorum.high_watermark if leader is None else leader.log_end_offset
    now_ms = None if leader is None else leader.last_fetch_timestamp
    rows: list[dict[str, object]] = []
    for replicas, status in ((quorum.voters, "follower"), (quorum.observers, "observer")):
        for each in replicas:
            is_leader = each is leader
            rows.append(
                {
                    "node": each.replica_id,
                    "directory": str(each.directory_id),
                    "status": "leader" if is_leader else status,
                    "endpoints": [str(one) for one in each.endpoints],
                    "log_end_offset": each.log_end_offset,
                    "lag": end_offset - each.log_end_offset,
                    "last_fetch_timestamp": each.last_fetch_timestamp,
                    "last_fetch": _ago(each.last_fetch_timestamp, now_ms),
                    "last_caught_up_timestamp": each.last_caught_up_timestamp,
                    "last_caught_up": _ago(each.last_caught_up_timestamp, now_ms),
                }
            )
    return sorted(rows, key=lambda row: row["status"] != "leader")


def _ago(timestamp_ms: int, now_ms: int | None) -> str | None:
    """Time since, by the leader's clock, which gave all timestamps."""
    if timestamp_ms == _UNKNOWN or now_ms is None:
        return None
    return f"{short_duration(max(0, now_ms - timestamp_ms))} ago"


def _leader(quorum: "QuorumInfo") -> "QuorumReplica | None":
    return next((each for each in quorum.voters if each.replica_id == quorum.leader_id), None)


def _voter_in(config: Path) -> "tuple[int, TopicId, list[RaftVoterEndpoint]]":
    """Id, directory id and endpoint of the controller with this configuration."""
    from headwater.cli.broker.storage import controller_address, metadata_directory, node_settings
    from headwater.client import RaftVoterEndpoint
    from headwater.common.exceptions import StorageError
    from headwater.common.ids import TopicId
    from headwater.storage.io.os_disk import OsDisk
    from headwater.storage.log_manager import meta_properties

    settings, quorum = node_settings(config)
    path = metadata_directory(settings, quorum)
    meta = meta_properties.load(OsDisk(), path) if path.is_dir() else None
    if meta is None or meta.directory_id is None:
        raise StorageError(f"{path} is not formatted; format it with headwater storage format")
    host, port = controller_address(settings, quorum)
    listener = quorum.controller_listener_names[0].upper()
    directory_id = TopicId.parse(meta.directory_id)
    return settings.node_id, directory_id, [RaftVoterEndpoint(listener, host, port)]


def _endpoints(texts: Sequence[str]) -> "list[RaftVoterEndpoint]":
    from headwater.client import RaftVoterEndpoint
    from headwater.network.endpoint import parse_endpoints

    return [
        RaftVoterEndpoint(each.name, each.host, each.port)
        for each in parse_endpoints(",".join(texts))
    ]


def _directory(
    text: str | None,
    node_id: int,
    kind: str,
    replicas: Callable[[], "Sequence[QuorumReplica]"],
) -> "TopicId":
    """The given directory id, or the only one that the quorum has for the node."""
    from headwater.common.exceptions import InvalidSetting, ProtocolError
    from headwater.common.ids import TopicId

    if text is not None:
        try:
            return TopicId.parse(text)
        except ProtocolError as error:
            raise InvalidSetting(f"--directory-id {text}: not a directory id") from error
    found = [each.directory_id for each in replicas() if each.replica_id == node_id]
    if len(found) != 1:
        reason = f"is not among the {kind}" if not found else "has several directory ids"
        raise InvalidSetting(
            f"node {node_id} {reason}: see headwater cluster quorum describe --replication, and "
            "give --directory-id"
        )
    return found[0]
