"""Where the `headwater` command begins: `start` takes the short way, all others typer's.

The short way spares a broker the 50 ms and the 5 MiB that the terminal's libraries cost.
"""

import sys
from collections.abc import Sequence


def main() -> None:
    if sys.argv[1:2] == ["start"]:
        sys.exit(start_broker(sys.argv[2:]))
    from headwater.cli.main import app

    app(prog_name="headwater")


def start_broker(arguments: Sequence[str]) -> int:
    from headwater.broker.process import run_broker
    from headwater.cli.start import start

    return start(arguments, lambda static, ready: run_broker(static, ready=ready))
