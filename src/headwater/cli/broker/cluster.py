"""`headwater cluster describe`: list the brokers and their log directory sizes."""

from typing import TYPE_CHECKING, Final

import typer

from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    show,
)

if TYPE_CHECKING:
    from headwater.client import Admin
    from headwater.client.admin.descriptions import LogDir

# A dead broker stays in the metadata until its ZooKeeper session expires.
_ONE_ANSWER_S: Final = 5.0

app = typer.Typer(no_args_is_help=True, help="Start or describe a cluster.")


@app.callback()
def cluster() -> None:
    """Start or describe a cluster."""


@app.command()
def describe(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the brokers, the controller, and the partitions and bytes on each broker."""
    with admin_of(bootstrap, command_config) as admin:
        found = admin.describe_cluster()
        log_dirs = {each.node_id: _log_dirs(admin, each.node_id) for each in found.brokers}
    rows = [
        {
            "cluster": found.cluster_id,
            "broker": each.node_id,
            "address": str(each.address),
            "rack": each.rack,
            "controller": each.node_id == found.controller_id,
            **_replicas_by_broker(log_dirs[each.node_id]),
        }
        for each in found.brokers
    ]
    columns = ["broker", "address", "rack", "controller", "partitions", "bytes"]
    if any(holds is None for holds in log_dirs.values()):
        columns.append("state")
    show(rows, as_json=as_json, columns=columns)


def _log_dirs(admin: "Admin", node_id: int) -> "list[LogDir] | None":
    """Describe the log directories of one broker; None if it does not answer."""
    from headwater.client.errors import BrokerNotAvailable, KafkaTimeout, NetworkException

    try:
        return admin.describe_log_dirs([node_id], timeout=_ONE_ANSWER_S)[node_id]
    except (BrokerNotAvailable, KafkaTimeout, NetworkException):
        return None


def _replicas_by_broker(log_dirs: "list[LogDir] | None") -> dict[str, object]:
    if log_dirs is None:
        return {"partitions": None, "bytes": None, "state": "unreachable"}
    replicas = [each for one in log_dirs for each in one.replicas.values()]
    size_bytes = sum(each.size_bytes for each in replicas)
    # A replica that is being moved to another log directory is listed twice.
    count = sum(not each.is_future for each in replicas)
    return {"partitions": count, "bytes": size_bytes, "state": "up"}
