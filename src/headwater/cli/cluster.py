"""`headwater cluster describe`: the brokers, and how much they hold."""

import typer

from headwater.cli.terminal import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, admin_of, show

app = typer.Typer(no_args_is_help=True, help="The cluster as a whole.")


@app.callback()
def cluster() -> None:
    """The cluster as a whole."""


@app.command()
def describe(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """The brokers, which of them is the controller, and how much they hold."""
    with admin_of(bootstrap) as admin:
        found = admin.describe_cluster()
        log_dirs = admin.describe_log_dirs()
    rows = [
        {
            "cluster": found.cluster_id,
            "broker": each.node_id,
            "address": str(each.address),
            "rack": each.rack,
            "controller": each.node_id == found.controller_id,
            "partitions": sum(len(one.replicas) for one in log_dirs.get(each.node_id, [])),
            "bytes": sum(
                replica.size_bytes
                for one in log_dirs.get(each.node_id, [])
                for replica in one.replicas.values()
            ),
        }
        for each in found.brokers
    ]
    columns = ["broker", "address", "rack", "controller", "partitions", "bytes"]
    show(rows, as_json=as_json, columns=columns)
