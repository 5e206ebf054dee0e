"""The `headwater` command line: one folder per group of commands.

Start with `main`; `entry` runs `headwater start` without loading typer. `terminal` holds the
options and output helpers that the admin commands share.
"""
