"""`headwater log dump`: what is in a log's files, and whether it is sound.

The exit code tells a script what the eye sees: 0 for a sound file, 1 for damage, 2 for input that
is no file of a log at all.
"""

from pathlib import Path
from typing import Annotated

import typer


def dump(
    file: Annotated[
        Path,
        typer.Argument(
            help="A .log, .index, .timeindex, .txnindex or .snapshot file, "
            "a leader-epoch-checkpoint, or a partition's folder.",
            show_default=False,
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line, a summary last.")
    ] = False,
    records: Annotated[
        bool, typer.Option("--records", help="Open the batches and show their records.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Stop after so many batches or entries.", show_default=False),
    ] = None,
) -> None:
    """Show the batches of a segment, and check them and its indexes.

    Each finding is one line on standard error. Exits with 0 when all is well, 1 when damage was
    found, 2 when the input cannot be used.
    """
    from headwater.cli.log.dump import Unusable, dump_path

    try:
        finding_count = dump_path(file, as_json=as_json, with_records=records, limit=limit)
    except Unusable as error:
        typer.echo(f"headwater: {error}", err=True)
        raise typer.Exit(2) from error
    raise typer.Exit(1 if finding_count else 0)
