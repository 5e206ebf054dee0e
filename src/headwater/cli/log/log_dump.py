"""`headwater log dump`: print the contents of log files and check them.

Exit code: 0 for an intact file, 1 for damage, 2 for input that is not a file of a log.
"""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Inspect log files.")


@app.callback()
def log() -> None:
    """Inspect log files."""


@app.command()
def dump(
    file: Annotated[
        Path,
        typer.Argument(
            help="A .log, .index, .timeindex, .txnindex or .snapshot file, "
            "a leader-epoch-checkpoint, or a partition directory.",
            show_default=False,
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line, with a summary at last.")
    ] = False,
    records: Annotated[
        bool, typer.Option("--records", help="Decode the batches and print their records.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stop after this many batches or entries. Default: print all.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print the batches of a segment, and check them and the indexes.

    Findings go to standard error, one per line. Exits with 0 if nothing is damaged, 1 if damage
    was found, 2 if the input cannot be used.
    """
    from headwater.cli.log.dump import UnreadablePath, dump_path

    try:
        finding_count = dump_path(file, as_json=as_json, with_records=records, limit=limit)
    except UnreadablePath as error:
        typer.echo(f"headwater: {error}", err=True)
        raise typer.Exit(2) from error
    raise typer.Exit(1 if finding_count else 0)
