"""Entry point of the `headwater` command.

`headwater start` skips typer and rich, which would cost a broker 50 ms and 5 MiB.
"""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.broker.node.broker_process import Serving
    from headwater.metadata.effective_configs import StaticConfig

# Exit code of a shell for a command that Ctrl-C ended.
_INTERRUPTED = 130


def main() -> None:
    try:
        if sys.argv[1:2] == ["start"] and not {"-h", "--help"} & set(sys.argv):
            sys.exit(start_broker(sys.argv[2:]))
        from headwater.cli.main import app

        app(prog_name="headwater")
    except KeyboardInterrupt:
        # Ctrl-C during the imports; later typer handles it.
        sys.exit(_INTERRUPTED)


def start_broker(arguments: Sequence[str]) -> int:
    from headwater.cli.broker.start import start

    def run(static: "StaticConfig", ready: "Callable[[Serving], None]") -> None:
        # Imported only here: a supervisor of several brokers needs none of a broker's modules.
        from headwater.broker.node.broker_process import run_broker

        run_broker(static, ready=ready)

    return start(arguments, run)
