"""Options that name the target of a reset, shared by groups and pipelines."""

from pathlib import Path
from typing import Annotated

import typer

ToEarliest = Annotated[bool, typer.Option("--to-earliest", help="Reset to the earliest offset.")]
ToLatest = Annotated[bool, typer.Option("--to-latest", help="Reset to the latest offset.")]
ToCurrent = Annotated[bool, typer.Option("--to-current", help="Keep the current offsets.")]
ToOffset = Annotated[
    int | None, typer.Option("--to-offset", help="Reset all partitions to this offset.")
]
ToTime = Annotated[
    str | None,
    typer.Option(
        "--to-time",
        "--to-datetime",
        help="Reset to a time: ISO 8601, such as 2026-01-31T12:00, or milliseconds since 1970.",
    ),
]
ByDuration = Annotated[
    str | None,
    typer.Option("--by-duration", help="Reset to this long before now, such as PT6H or P1D."),
]
ShiftBy = Annotated[
    int | None, typer.Option("--shift-by", help="Shift the current offsets; may be negative.")
]
FromFile = Annotated[
    Path | None,
    typer.Option("--from-file", help="Reset to the offsets in a CSV file: topic,partition,offset."),
]
