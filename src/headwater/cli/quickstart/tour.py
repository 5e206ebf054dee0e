"""The steps of the tour: what they say and which commands they run. Pure.

Commands are lines for a shell in the tour's folder. `HEADWATER_BOOTSTRAP` names the broker, so that
the lines are as short as in daily use.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

BOOTSTRAP: Final = "HEADWATER_BOOTSTRAP"
FOREIGN_SETTINGS: Final = ("HEADWATER_COMMAND_CONFIG", "HEADWATER_REGISTRY")
"""Variables that point commands to other clusters."""

_PIPELINE: Final = """\
cat > large.yaml <<'END'
version: 1
name: large-cups
bootstrap: 127.0.0.1:9092      # HEADWATER_BOOTSTRAP replaces it
checkpoint: ./checkpoints
sources:
  cups:
    subscribe: tea
    startingOffsets: earliest
    decode: {value: {json: "kind string, grams bigint"}}
steps:
  large:
    sql: select kind, grams from cups where grams >= 100
sinks:
  - from: large
    topic: large-cups
    create: {partitions: 1}
    key: kind
    delivery: exactly-once
    trigger: {available_now: true}
END"""


@dataclass(frozen=True, slots=True)
class ShellState:
    """A line for the user's shell; the tour's commands run as if it had been typed."""

    line: str


@dataclass(frozen=True, slots=True)
class Execute:
    """A command that ends; `needs_shell` if it has a pipe or a here-document."""

    line: str
    needs_shell: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Serve:
    """A command that serves until the end of the tour.

    It is ready when it prints `READY ADDRESS`; `variable` is then set to the address.
    """

    line: str
    ready: str
    variable: str | None = None


Command = ShellState | Execute | Serve


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step: `text` is shown before the commands, `outcome` after them.

    `missing` says what to install if the step cannot run here; its commands are then only shown.
    """

    title: str
    text: str
    commands: tuple["Command", ...]
    outcome: str = ""
    missing: str | None = None


def tour(
    folder: str,
    *,
    missing_for_console: str | None = None,
    missing_for_pipeline: str | None = None,
    foreign_settings: Sequence[str] = (),
) -> list[Step]:
    """Return the steps; `foreign_settings` are variables that the first one unsets."""
    unset = [ShellState(f"unset {name}") for name in foreign_settings]
    return [
        Step(
            title="Start a broker",
            text="A broker stores topics in a data directory and serves Kafka's protocol. Port 0 "
            "means any free port; without options it is 127.0.0.1:9092.",
            commands=(
                ShellState(f"cd {folder}"),
                *unset,
                Serve(
                    line="headwater start --data data --listen 127.0.0.1:0",
                    ready="headwater ready on ",
                    variable=BOOTSTRAP,
                ),
            ),
            outcome=f"{BOOTSTRAP} tells the following commands where the broker is.",
        ),
        Step(
            title="Create a topic",
            text="A topic is a log of records, cut into partitions that are written and read in "
            "parallel.",
            commands=(
                Execute("headwater topics create tea --partitions 2"),
                Execute("headwater topics describe tea"),
            ),
        ),
        Step(
            title="Produce records",
            text="Each line becomes a record. The part before | is its key: records with the same "
            "key go to the same partition and keep their order.",
            commands=(
                Execute(
                    'printf \'%s\\n\' \'ann|{"kind": "green", "grams": 120}\' '
                    '\'max|{"kind": "black", "grams": 40}\' '
                    '\'ann|{"kind": "white", "grams": 250}\' | '
                    "headwater produce tea --key-separator '|'",
                    needs_shell=True,
                ),
            ),
            outcome="The command returns when the broker has acknowledged all records.",
        ),
        Step(
            title="Consume them",
            text="Reading does not remove records. A consumer group shares the partitions of a "
            "topic among its members and commits how far it has read; its lag is the rest.",
            commands=(
                Execute("headwater consume tea --from-beginning --exit --format '%p:%o %k %v\\n'"),
                Execute("headwater consume tea --from-beginning --group tasters --max 3"),
                Execute("headwater groups describe tasters"),
            ),
        ),
        Step(
            title="Look at the cluster in a browser",
            text="The console shows topics, records, groups and pipelines.",
            commands=(
                Serve(
                    line="headwater console start --listen 127.0.0.1:0",
                    ready="headwater console ready on ",
                ),
            ),
            outcome="Open the address in a browser; the console serves until this tour ends.",
            missing=missing_for_console,
        ),
        Step(
            title="Run a pipeline on Spark",
            text="A pipeline is one file: sources, steps in SQL, sinks. This one copies large "
            "cups to another topic, each exactly once. Spark takes some ten seconds to start.",
            commands=(
                Execute(_PIPELINE, needs_shell=True),
                Execute("headwater pipeline check large.yaml"),
                Execute("headwater pipeline run large.yaml --runs runs"),
                Execute("headwater consume large-cups --from-beginning --exit --format '%k %v\\n'"),
            ),
            missing=missing_for_pipeline,
        ),
    ]


def shown_lines(command: Command) -> Iterator[str]:
    """The lines of a command as in a terminal, with the prompt of a shell."""
    first, *others = command.line.split("\n")
    yield f"$ {first}{' &' if isinstance(command, Serve) else ''}"
    yield from others


def ready_address(line: str, command: Serve) -> str | None:
    """Return the address in a server's ready line; None for any other line."""
    if not line.startswith(command.ready):
        return None
    return line.removeprefix(command.ready).partition(" ")[0].strip()
