"""`headwater topics`: make, list, describe, alter and delete topics."""

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
    failing_clearly,
    outcomes_of,
    pairs,
    show,
    show_found,
    tell_done,
)
from headwater.cli.topics.configs import expect_configs

if TYPE_CHECKING:
    from headwater.client.network.cluster_metadata import PartitionView

app = typer.Typer(no_args_is_help=True, help="Make, list, describe, alter and delete topics.")


def _some_names(names: list[str]) -> list[str]:
    if "" in names:
        raise typer.BadParameter("a topic name must not be empty")
    return names


Names = Annotated[
    list[str],
    typer.Argument(
        help="Topics.", show_default=False, callback=_some_names, autocompletion=topic_names
    ),
]
Configs = Annotated[
    list[str] | None, typer.Option("--config", "-c", help="name=value, as often as you like.")
]


@app.command()
def create(
    names: Names,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="How many; -1 leaves it to the broker.")
    ] = -1,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", "-r", help="-1 leaves it to the broker.")
    ] = -1,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Be content if it is there.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Make topics."""
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
    internal: Annotated[bool, typer.Option("--internal", help="Internal topics too.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """The names of all topics."""
    with admin_of(bootstrap, command_config) as admin:
        names = admin.list_topics(include_internal=internal)
    if as_json:
        show([{"topic": name} for name in names], as_json=True, columns=["topic"])
        return
    with failing_clearly():
        for name in names:
            typer.echo(name)


@app.command()
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Topics; all, if none.", show_default=False, autocompletion=topic_names
        ),
    ] = None,
    under_replicated: Annotated[
        bool,
        typer.Option("--under-replicated", help="Only partitions with replicas that lag behind."),
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="Only partitions without a leader.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Partitions, leaders and replicas."""
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
            "id": str(topic.topic_id),
            "internal": topic.is_internal,
        }
        for topic in described.values()
        for each in topic.partitions
        if is_wanted(each, under_replicated=under_replicated, unavailable=unavailable)
    ]
    columns = ["topic", "partition", "leader", "epoch", "replicas", "isr"]
    show_found(rows, errors, as_json=as_json, columns=columns)


def is_wanted(each: "PartitionView", *, under_replicated: bool, unavailable: bool) -> bool:
    """Whether a partition is of those that were asked for: all of them, or those in trouble."""
    if not under_replicated and not unavailable:
        return True
    lags = under_replicated and len(each.isr) < len(each.replicas)
    return lags or (unavailable and each.leader_id < 0)


@app.command()
def alter(
    name: Annotated[
        str, typer.Argument(help="The topic.", show_default=False, autocompletion=topic_names)
    ],
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", help="Let it grow to so many.", show_default=False),
    ] = None,
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None, typer.Option(help="A config that goes back to its default.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Let a topic grow, or change its configs."""
    from headwater.client import ConfigResource

    changes: dict[str, str | None] = {**pairs(config or [], "--config")}
    changes |= dict.fromkeys(delete_config or [])
    if partitions is None and not changes:
        raise typer.BadParameter("nothing is to be altered")
    with admin_of(bootstrap, command_config) as admin:
        expect_configs(admin, ConfigResource.topic(name), delete_config or [])
        if partitions is not None:
            admin.create_partitions({name: partitions})
        if changes:
            admin.alter_configs({ConfigResource.topic(name): dict(changes)})
    tell_done([{"topic": name, "partitions": partitions, "configs": changes}], as_json=as_json)


@app.command()
def delete(
    names: Names,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Be content if it is not there.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete topics with all their records."""
    with admin_of(bootstrap, command_config) as admin:
        if if_exists:
            there = admin.list_topics(include_internal=True)
            names = [name for name in names if name in there]
        errors = errors_of(lambda: admin.delete_topics(names)) if names else {}
    deleted = [{"topic": name} for name in names if name not in errors]
    tell_done(deleted, as_json=as_json, errors=errors)
