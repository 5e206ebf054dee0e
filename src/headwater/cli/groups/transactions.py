"""`headwater transactions`: what is open, whose it is, and how to end one that hangs.

What a reader would get wrong: there are two ways to abort. One that its coordinator knows is
aborted by its transactional id, and its producer is fenced off. One that hangs in a partition,
because no coordinator knows of it any more, is aborted there.
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
    expect_partitions,
    outcomes_of,
    show,
    show_found,
    tell_done,
    topic_partition,
    waiting,
)
from headwater.cli.times import duration_ms

if TYPE_CHECKING:
    from headwater.client import Admin, TopicPartition
    from headwater.client.admin.descriptions import ProducerDescription

app = typer.Typer(no_args_is_help=True, help="Look at transactions, and abort those that hang.")


@app.command("list")
def list_(
    state: Annotated[
        list[str] | None, typer.Option(help="Only those in this state, such as Ongoing.")
    ] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option(help="Only those of this producer.")
    ] = None,
    longer_than: Annotated[
        str | None, typer.Option(help="Only those that are open for so long, such as PT5M.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """All transactional ids."""
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
    """Transactional ids, and what their transactions have touched."""
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
        list[str], typer.Argument(help="topic:partition ...", show_default=False)
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """The producers that partitions remember, and where their open transactions begin."""
    places = [topic_partition(each) for each in partitions]
    with admin_of(bootstrap, command_config) as admin:
        expect_partitions(admin, places)
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
            "--topic", "-t", help="In this topic; else in all.", autocompletion=topic_names
        ),
    ] = None,
    older_than: Annotated[
        str, typer.Option(help="In which nothing was written for so long, such as PT15M.")
    ] = "PT15M",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Transactions that no coordinator will end. They hold up who reads committed records."""
    from headwater.cli.groups.hanging_transactions import hanging, old_ones, owners

    before_ms = time.time_ns() // 1_000_000 - duration_ms(older_than)
    with admin_of(bootstrap, command_config) as admin, waiting("looking at all partitions"):
        suspects = old_ones(
            admin.describe_producers(_led_partitions(admin, topic)), before_ms=before_ms
        )
        owner = owners(suspects, admin.list_transactions()) if suspects else {}
        described, _ = outcomes_of(
            lambda: admin.describe_transactions(sorted(set(owner.values()))) if owner else {}
        )
    rows = [
        {"topic": each.place.topic, "partition": each.place.partition, **_producer(each.producer)}
        for each in hanging(suspects, owner, described)
    ]
    columns = ["topic", "partition", "producer", "epoch", "last_ms", "open_since"]
    show(rows, as_json=as_json, columns=columns)


def _led_partitions(admin: "Admin", topics: list[str] | None) -> "list[TopicPartition]":
    """Those that somebody can be asked about."""
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
        str | None, typer.Argument(help="topic:partition", show_default=False)
    ] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="Whose transaction is open; its producer is fenced off.",
            autocompletion=transactional_ids,
        ),
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(help="Whose transaction hangs in the partition.")
    ] = None,
    start_offset: Annotated[
        int | None, typer.Option(help="Where the transaction begins that hangs in the partition.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Abort a transaction by its id, or in a partition one that its coordinator has forgotten."""
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
    tell_done([row], as_json=as_json)


def _fence(admin: "Admin", transactional_id: str) -> dict[str, object]:
    # One that does not exist would be made.
    admin.describe_transactions([transactional_id])
    now = admin.fence_producers([transactional_id])[transactional_id]
    return {"id": transactional_id, "producer": now.producer_id, "epoch": now.producer_epoch}


def _abort_in(
    admin: "Admin", place: "TopicPartition", is_meant: "Callable[[ProducerDescription], bool]"
) -> dict[str, object]:
    expect_partitions(admin, [place])
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
