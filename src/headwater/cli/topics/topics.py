"""`headwater topics`: create, list, describe, alter and delete topics."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.completion import topic_names
from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    errors_of,
    hint,
    outcomes_of,
    pairs,
    show,
    show_done,
    show_found,
)
from headwater.cli.topics.configs import check_configs

if TYPE_CHECKING:
    from headwater.client.network.cluster_metadata import PartitionView

app = typer.Typer(no_args_is_help=True, help="Create, list, describe, alter and delete topics.")


def _some_names(names: list[str]) -> list[str]:
    if "" in names:
        raise typer.BadParameter("a topic name must not be empty")
    return names


Names = Annotated[
    list[str],
    typer.Argument(
        metavar="TOPIC",
        help="Topic names.",
        show_default=False,
        callback=_some_names,
        autocompletion=topic_names,
    ),
]
Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME=VALUE",
        help="Topic config, such as retention.ms=3600000; repeatable.",
    ),
]


@app.command()
def create(
    names: Names,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", "-p", help="Number of partitions; -1: the broker's num.partitions."
        ),
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            "-r",
            help="Replication factor; -1: the broker's default.replication.factor.",
        ),
    ] = -1,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if the topic exists.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Create topics."""
    from headwater.client import NewTopic
    from headwater.client.errors import KafkaError, SomeFailed, TopicAlreadyExists

    configs = pairs(config or [], "--config")
    topics = [
        NewTopic(
            name=name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
        )
        for name in dict.fromkeys(names)
    ]
    errors: dict[str, KafkaError] = {}
    with admin_of(bootstrap, command_config) as admin:
        try:
            made = admin.create_topics(topics)
        except SomeFailed as error:
            made, errors = dict(error.results), dict(error.errors)
        except TopicAlreadyExists as error:
            made, errors = {}, {names[0]: error}
    if if_not_exists:
        errors = {
            name: each for name, each in errors.items() if not isinstance(each, TopicAlreadyExists)
        }
    rows = [{"topic": name, "id": str(topic_id)} for name, topic_id in made.items()]
    show_found(rows, errors, as_json=as_json, columns=["topic", "id"])


@app.command("list")
def list_(
    match: Annotated[
        list[str] | None,
        typer.Option(
            "--match",
            "-m",
            help="Only names with this text, or a pattern with * and ?; repeatable.",
        ),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            help="Only topics in this state: offline, under-replicated, ok. Default: all.",
        ),
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", help="Sort by name, partitions, size, records or state.")
    ] = "name",
    reverse: Annotated[bool, typer.Option("--reverse", help="Reverse the order.")] = False,
    names: Annotated[bool, typer.Option("--names", help="Print only names, one per line.")] = False,
    records: Annotated[
        bool, typer.Option("--records", help="Count records of any number of partitions.")
    ] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List topics with their partitions, replicas, size, records and state.

    Size is that of all replicas on disk. Records is the number of offsets, which includes the
    markers of transactions and what compaction has removed. Above 5,000 partitions, records are
    counted for the first topics only, unless --records is given.
    """
    from headwater.cli.topics.topic_list import (
        COUNTED_MAX,
        SORTS,
        STATES,
        matching,
        record_counts,
        replica_sizes,
        topic_rows,
    )

    _one_of(sort, list(SORTS), "--sort")
    _one_of(state, STATES, "--state")
    with admin_of(bootstrap, command_config) as admin:
        chosen = matching(admin.list_topics(include_internal=internal), match or [])
        if names:
            for name in chosen:
                typer.echo(name)
            return
        described, _ = outcomes_of(lambda: admin.describe_topics(chosen) if chosen else {})
        topics = [described[name] for name in chosen if name in described]
        counts = record_counts(admin, topics, limit=None if records else COUNTED_MAX)
        rows = topic_rows(topics, sizes=replica_sizes(admin), counts=counts)
    rows = sorted(
        (each for each in rows if state in (None, each["state"])), key=SORTS[sort], reverse=reverse
    )
    show(
        rows,
        as_json=as_json,
        columns=["topic", "partitions", "replicas", "size", "records", "state"],
    )
    partitions = sum(len(each.partitions) for each in topics)
    if not records and not as_json and partitions > COUNTED_MAX:
        hint(f"records are counted for the first {COUNTED_MAX} partitions; --records counts all")


def _one_of(value: str | None, known: Sequence[str], option: str) -> None:
    if value is not None and value not in known:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(known)}", param_hint=option)


@app.command()
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC",
            help="Topic names; default: all topics.",
            show_default=False,
            autocompletion=topic_names,
        ),
    ] = None,
    under_replicated: Annotated[
        bool,
        typer.Option("--under-replicated", help="Show only under-replicated partitions."),
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="Show only partitions without a leader.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show partitions with their leaders, replicas and ISR, and ELR if there is one."""
    with admin_of(bootstrap, command_config) as admin:
        described, errors = outcomes_of(lambda: admin.describe_topics(names or admin.list_topics()))
    rows = [
        {
            "topic": topic.name,
            "partition": each.partition,
            "leader": each.leader_id,
            "epoch": each.leader_epoch,
            "replicas": list(each.replicas),
            "isr": list(each.isr),
            "elr": list(each.elr),
            "last known elr": list(each.last_known_elr),
            "id": str(topic.topic_id),
            "internal": topic.is_internal,
        }
        for topic in described.values()
        for each in topic.partitions
        if is_wanted(each, under_replicated=under_replicated, unavailable=unavailable)
    ]
    columns = ["topic", "partition", "leader", "epoch", "replicas", "isr"]
    columns += [name for name in ("elr", "last known elr") if any(row[name] for row in rows)]
    show_found(rows, errors, as_json=as_json, columns=columns)


def is_wanted(each: "PartitionView", *, under_replicated: bool, unavailable: bool) -> bool:
    """Whether a partition matches the filters; no filter matches all."""
    if not under_replicated and not unavailable:
        return True
    lags = under_replicated and len(each.isr) < len(each.replicas)
    return lags or (unavailable and each.leader_id < 0)


@app.command()
def alter(
    name: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC", help="Topic name.", show_default=False, autocompletion=topic_names
        ),
    ],
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            help="New number of partitions; it can only grow. Default: unchanged.",
            show_default=False,
        ),
    ] = None,
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None, typer.Option(help="Config to reset to its default; repeatable.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Add partitions to a topic or change its configs."""
    from headwater.client import ConfigResource

    changes: dict[str, str | None] = {**pairs(config or [], "--config")}
    changes |= dict.fromkeys(delete_config or [])
    if partitions is None and not changes:
        raise typer.BadParameter("nothing to alter; give --partitions, --config or --delete-config")
    with admin_of(bootstrap, command_config) as admin:
        check_configs(admin, ConfigResource.topic(name), delete_config or [])
        if partitions is not None:
            admin.create_partitions({name: partitions})
        if changes:
            admin.alter_configs({ConfigResource.topic(name): dict(changes)})
    show_done([{"topic": name, "partitions": partitions, "configs": changes}], as_json=as_json)


@app.command()
def delete(
    names: Names,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Ignore topics that do not exist.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete topics and all their records."""
    with admin_of(bootstrap, command_config) as admin:
        if if_exists:
            there = admin.list_topics(include_internal=True)
            names = [name for name in names if name in there]
        errors = errors_of(lambda: admin.delete_topics(names)) if names else {}
    deleted = [{"topic": name} for name in names if name not in errors]
    show_done(deleted, as_json=as_json, errors=errors)
