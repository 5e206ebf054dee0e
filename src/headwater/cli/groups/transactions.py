"""`headwater transactions`: list, describe, abort, find hanging transactions.

Note: there are two ways to abort. A transaction that its coordinator knows is aborted by
transactional id, which fences its producer. A hanging transaction, unknown to any coordinator, is
aborted in its partition with an ABORT marker.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.completion import topic_names, transactional_ids
from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    check_partitions,
    outcomes_of,
    show,
    show_done,
    show_found,
    topic_partition,
    waiting,
)
from headwater.cli.times import duration_ms

if TYPE_CHECKING:
    from headwater.client import Admin, TopicPartition
    from headwater.client.admin.descriptions import ProducerDescription

app = typer.Typer(no_args_is_help=True, help="List, describe and abort transactions.")


@app.command("list")
def list_(
    state: Annotated[
        list[str] | None, typer.Option(help="List only this state, such as Ongoing; repeatable.")
    ] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option(help="List only this producer id; repeatable.")
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option(
            help="List only transactions that have run longer, such as PT5M. Default: all."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List transactional ids."""
    least_ms = -1 if longer_than is None else duration_ms(longer_than)
    with admin_of(bootstrap, command_config) as admin:
        found = admin.list_transactions(
            states=state or [], producer_ids=producer_id or [], longer_than_ms=least_ms
        )
    rows = [
        {"id": each.transactional_id, "producer": each.producer_id, "state": each.state}
        for each in found
    ]
    show(rows, as_json=as_json, columns=["id", "producer", "state"])


@app.command()
def describe(
    transactional_ids: Annotated[
        list[str],
        typer.Argument(
            help="Transactional ids.", show_default=False, autocompletion=transactional_ids
        ),
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of transactional ids and the partitions in their transactions."""
    with admin_of(bootstrap, command_config) as admin:
        described, errors = outcomes_of(lambda: admin.describe_transactions(transactional_ids))
    rows = [
        {
            "id": found.transactional_id,
            "state": found.state,
            "producer": found.producer_id,
            "epoch": found.producer_epoch,
            "coordinator": found.coordinator_id,
            "timeout_ms": found.timeout_ms,
            "start_ms": found.start_time_ms,
            "partitions": list(map(str, found.partitions)),
        }
        for found in described.values()
    ]
    show_found(rows, errors, as_json=as_json, columns=list(rows[0]) if rows else [])


@app.command()
def producers(
    partitions: Annotated[
        list[str],
        typer.Argument(help="Partitions, such as tea:0.", show_default=False),
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the producers of partitions, with open transactions (DescribeProducers)."""
    places = [topic_partition(each) for each in partitions]
    with admin_of(bootstrap, command_config) as admin:
        check_partitions(admin, places)
        found, errors = outcomes_of(lambda: admin.describe_producers(places))
    rows = [
        {"topic": place.topic, "partition": place.partition, **_producer(each)}
        for place, those in sorted(found.items())
        for each in those
    ]
    columns = ["topic", "partition", "producer", "epoch", "sequence", "last_ms", "open_since"]
    show_found(rows, errors, as_json=as_json, columns=columns)


def _producer(each: "ProducerDescription") -> dict[str, object]:
    return {
        "producer": each.producer_id,
        "epoch": each.producer_epoch,
        "sequence": each.last_sequence,
        "last_ms": each.last_timestamp,
        "coordinator_epoch": each.coordinator_epoch,
        "open_since": each.transaction_start_offset,
    }


@app.command("find-hanging")
def find_hanging(
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            help="Search this topic; default: all topics.",
            autocompletion=topic_names,
        ),
    ] = None,
    older_than: Annotated[
        str,
        typer.Option(help="Minimum time since the last record of the transaction, such as PT15M."),
    ] = "PT15M",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Find open transactions that no coordinator knows; they block read_committed."""
    from headwater.cli.groups.hanging_transactions import hanging, open_before, owners

    before_ms = time.time_ns() // 1_000_000 - duration_ms(older_than)
    with admin_of(bootstrap, command_config) as admin, waiting("describing producers"):
        suspects = open_before(
            admin.describe_producers(_led_partitions(admin, topic)), before_ms=before_ms
        )
        owner = owners(suspects, admin.list_transactions()) if suspects else {}
        described, _ = outcomes_of(
            lambda: admin.describe_transactions(sorted(set(owner.values()))) if owner else {}
        )
    rows = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            **_producer(each.producer),
        }
        for each in hanging(suspects, owner, described)
    ]
    columns = ["topic", "partition", "producer", "epoch", "last_ms", "open_since"]
    show(rows, as_json=as_json, columns=columns)


def _led_partitions(admin: "Admin", topics: list[str] | None) -> "list[TopicPartition]":
    """All partitions of the topics that have a leader."""
    from headwater.client import TopicPartition

    described = admin.describe_topics(topics or admin.list_topics(include_internal=True))
    return [
        TopicPartition(topic.name, each.partition)
        for topic in described.values()
        for each in topic.partitions
        if each.leader_id >= 0
    ]


@app.command()
def abort(
    partition: Annotated[
        str | None,
        typer.Argument(help="Partition of a hanging transaction.", show_default=False),
    ] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="Abort the transaction of this transactional id and fence its producer.",
            autocompletion=transactional_ids,
        ),
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(help="Producer id of the hanging transaction.")
    ] = None,
    start_offset: Annotated[
        int | None, typer.Option(help="Start offset of the hanging transaction.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Abort a transaction by transactional id, or a hanging one in a partition."""
    hangs = (producer_id is None) != (start_offset is None)
    if (transactional_id is None) == (partition is None) or hangs != (partition is not None):
        raise typer.BadParameter(
            "give --id, or topic:partition with one of --producer-id and --start-offset"
        )
    with admin_of(bootstrap, command_config) as admin:
        if transactional_id is not None:
            row = _fence(admin, transactional_id)
        else:
            assert partition is not None
            row = _abort_in(
                admin,
                topic_partition(partition),
                lambda each: (
                    each.transaction_start_offset is not None
                    and (
                        each.producer_id == producer_id
                        or each.transaction_start_offset == start_offset
                    )
                ),
            )
    show_done([row], as_json=as_json)


def _fence(admin: "Admin", transactional_id: str) -> dict[str, object]:
    # InitProducerId would create a missing transactional id.
    admin.describe_transactions([transactional_id])
    now = admin.fence_producers([transactional_id])[transactional_id]
    return {"id": transactional_id, "producer": now.producer_id, "epoch": now.producer_epoch}


def _abort_in(
    admin: "Admin", place: "TopicPartition", is_meant: "Callable[[ProducerDescription], bool]"
) -> dict[str, object]:
    check_partitions(admin, [place])
    found = next(
        (each for each in admin.describe_producers([place])[place] if is_meant(each)), None
    )
    if found is None:
        typer.echo(f"headwater: no such transaction is open in {place}", err=True)
        raise typer.Exit(1)
    admin.abort_transaction(
        place,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        coordinator_epoch=max(found.coordinator_epoch, 0),
    )
    return {"topic": place.topic, "partition": place.partition, "producer": found.producer_id}
