"""Where the `headwater` command begins: `start` takes the short way, all others typer's.

The short way spares a broker the 50 ms and the 5 MiB that the terminal's libraries cost.
"""

import sys
from collections.abc import Sequence

# What a shell says of a command that Ctrl-C has ended.
_INTERRUPTED = 130


def main() -> None:
    try:
        if sys.argv[1:2] == ["start"]:
            sys.exit(start_broker(sys.argv[2:]))
        from headwater.cli.main import app

        app(prog_name="headwater")
    except KeyboardInterrupt:
        # While modules were still being loaded; later it is typer that sees to it.
        sys.exit(_INTERRUPTED)


def start_broker(arguments: Sequence[str]) -> int:
    from headwater.broker.node.broker_process import run_broker
    from headwater.cli.broker.start import start

    return start(arguments, lambda static, ready: run_broker(static, ready=ready))
