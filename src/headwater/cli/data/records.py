"""`headwater records delete`: delete the records before an offset."""

from typing import Annotated

import typer

from headwater.cli.terminal import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    admin_of,
    check_partitions,
    outcomes_of,
    show_found,
    topic_partition,
)

app = typer.Typer(no_args_is_help=True, help="Delete records.")


@app.callback()
def records() -> None:
    """Delete records."""


@app.command()
def delete(
    partitions: Annotated[
        list[str],
        typer.Argument(help="Partitions, such as tea:0.", show_default=False),
    ],
    before: Annotated[
        int, typer.Option(help="New log start offset; -1 deletes up to the high watermark.")
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete all records before an offset (DeleteRecords)."""
    places = [topic_partition(each) for each in partitions]
    with admin_of(bootstrap, command_config) as admin:
        check_partitions(admin, places)
        found, errors = outcomes_of(lambda: admin.delete_records(dict.fromkeys(places, before)))
    rows = [
        {"topic": place.topic, "partition": place.partition, "start": offset}
        for place, offset in sorted(found.items())
    ]
    show_found(rows, errors, as_json=as_json, columns=["topic", "partition", "start"])
