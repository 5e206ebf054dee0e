"""The `headwater` command: arguments in, tables out. One folder per group of commands.

Start with `main`; `entry` takes a shortcut for `headwater start`.
`terminal` is what all commands that talk to brokers share.
"""
