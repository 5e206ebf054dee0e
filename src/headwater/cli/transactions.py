"""`headwater transactions`: what is open, whose it is, and how to end one that hangs."""

from typing import Annotated

import typer

from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    expect_partitions,
    show,
    tell_done,
    topic_partition,
)

app = typer.Typer(no_args_is_help=True, help="Look at transactions, and abort those that hang.")


@app.command("list")
def list_(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """All transactional ids."""
    with admin_of(bootstrap, command_config) as admin:
        found = admin.list_transactions()
    rows = [
        {"id": each.transactional_id, "producer": each.producer_id, "state": each.state}
        for each in found
    ]
    show(rows, as_json=as_json, columns=["id", "producer", "state"])


@app.command()
def describe(
    transactional_id: Annotated[str, typer.Argument(show_default=False)],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """One transactional id, and what its transaction has touched."""
    with admin_of(bootstrap, command_config) as admin:
        found = admin.describe_transactions([transactional_id])[transactional_id]
    row = {
        "id": transactional_id,
        "state": found.state,
        "producer": found.producer_id,
        "epoch": found.producer_epoch,
        "coordinator": found.coordinator_id,
        "timeout_ms": found.timeout_ms,
        "start_ms": found.start_time_ms,
        "partitions": list(map(str, found.partitions)),
    }
    show([row], as_json=as_json, columns=list(row))


@app.command()
def abort(
    partition: Annotated[str, typer.Argument(help="topic:partition", show_default=False)],
    producer_id: Annotated[int, typer.Option(help="Whose transaction hangs there.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """End a transaction that its coordinator has forgotten."""
    place = topic_partition(partition)
    with admin_of(bootstrap, command_config) as admin:
        expect_partitions(admin, [place])
        open_ones = [
            each
            for each in admin.describe_producers([place])[place]
            if each.producer_id == producer_id and each.transaction_start_offset is not None
        ]
        if not open_ones:
            typer.echo(
                f"headwater: producer {producer_id} has no transaction open in {place}", err=True
            )
            raise typer.Exit(1)
        admin.abort_transaction(
            place,
            producer_id=producer_id,
            producer_epoch=open_ones[0].producer_epoch,
            coordinator_epoch=max(open_ones[0].coordinator_epoch, 0),
        )
    row = {"topic": place.topic, "partition": place.partition, "producer": producer_id}
    tell_done([row], as_json=as_json)
