"""The `headwater` command: finds the command's file and hands over."""

import typer

app = typer.Typer(no_args_is_help=True)
