"""`headwater cluster describe`: list the brokers and their log directory sizes."""

from collections import Counter
from typing import TYPE_CHECKING, Final

import typer

from headwater.cli.broker import cluster_start, migrate, quorum
from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    outcomes_of,
    show,
)
from headwater.cli.units import ByteCount

if TYPE_CHECKING:
    from headwater.client import Admin
    from headwater.client.admin.descriptions import LogDir

# A dead broker stays in the metadata until its ZooKeeper session expires.
_ONE_ANSWER_S: Final = 5.0

app = typer.Typer(no_args_is_help=True, help="Start or describe a cluster.")


@app.callback()
def cluster() -> None:
    """Start or describe a cluster."""


app.command("start")(cluster_start.start)
app.command("migrate-to-kraft")(migrate.migrate_to_kraft)
app.add_typer(quorum.app, name="quorum")


@app.command()
def describe(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the brokers, the controller, and the partitions and bytes on each broker.

    A broker that has replicas but has left the cluster is shown with the state down.
    """
    with admin_of(bootstrap, command_config) as admin:
        found = admin.describe_cluster()
        log_dirs = {each.node_id: _log_dirs(admin, each.node_id) for each in found.brokers}
        replicas = _replica_counts(admin)
    rows: list[dict[str, object]] = [
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
    # A broker that is down is not in the cluster's description, but has replicas.
    rows += [
        {
            "cluster": found.cluster_id,
            "broker": node_id,
            "address": None,
            "rack": None,
            "controller": False,
            "partitions": replicas[node_id],
            "bytes": None,
            "size": None,
            "state": "down",
        }
        for node_id in sorted(replicas.keys() - log_dirs.keys())
    ]
    columns = ["broker", "state", "address", "rack", "controller", "partitions", "size"]
    show(rows, as_json=as_json, columns=columns)


def _replica_counts(admin: "Admin") -> Counter[int]:
    """Count the replicas that the cluster's metadata assigns to each broker."""
    names = admin.list_topics(include_internal=True)
    topics, _ = outcomes_of(lambda: admin.describe_topics(names) if names else {})
    return Counter(
        node_id
        for topic in topics.values()
        for partition in topic.partitions
        for node_id in partition.replicas
    )


def _log_dirs(admin: "Admin", node_id: int) -> "list[LogDir] | None":
    """Describe the log directories of one broker; None if it does not answer."""
    from headwater.client.errors import BrokerNotAvailable, KafkaTimeout, NetworkException

    try:
        return admin.describe_log_dirs([node_id], timeout=_ONE_ANSWER_S)[node_id]
    except (BrokerNotAvailable, KafkaTimeout, NetworkException):
        return None


def _replicas_by_broker(log_dirs: "list[LogDir] | None") -> dict[str, object]:
    if log_dirs is None:
        return {"partitions": None, "bytes": None, "size": None, "state": "unreachable"}
    replicas = [each for one in log_dirs for each in one.replicas.values()]
    size_bytes = sum(each.size_bytes for each in replicas)
    # A replica that is being moved to another log directory is listed twice.
    count = sum(not each.is_future for each in replicas)
    size = ByteCount(size_bytes)
    return {"partitions": count, "bytes": size_bytes, "size": size, "state": "up"}
