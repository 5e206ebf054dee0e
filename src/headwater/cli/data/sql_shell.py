"""The interactive shell of `headwater sql`: queries with history and completion.

A query may span lines and ends with a semicolon. A line that starts with a dot is a command of the
shell.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from headwater.cli.data.sql import follow_query, run_query, warn
from headwater.cli.data.sql_output import OutputFormat
from headwater.cli.terminal import print_error
from headwater.common.exceptions import HeadwaterError

if TYPE_CHECKING:
    from headwater.sql import SqlSession

PROMPT: Final = "headwater> "
CONTINUED: Final = "      ...> "
HISTORY_MAX: Final = 1_000
_SUGGESTIONS_MAX: Final = 200
_FORMATS: Final = (OutputFormat.TABLE, OutputFormat.CSV, OutputFormat.JSON)
_HELP: Final = (
    (".topics [TEXT]", "List topics, or those with this text in their names."),
    (".format FORMAT", "Print results as table, csv or json."),
    (".rows N", "Print at most N rows as a table; 0: all."),
    (".stats", "Turn on or off what a query has read."),
    (".explain QUERY", "Show what a query would read, and DuckDB's plan."),
    (".follow QUERY", "Run a query over what arrives, until Ctrl-C."),
    (".refresh", "Look at the topics again: new topics, new columns."),
    (".help", "Show this list."),
    (".quit", "Exit; so does Ctrl-D."),
)
_COMMANDS: Final = tuple(name.split()[0] for name, _ in _HELP)
_KEYWORDS: Final = (
    "select", "from", "where", "group by", "order by", "having", "limit", "join", "left join",
    "using", "on", "as", "and", "or", "not", "is null", "is not null", "between", "like", "in",
    "distinct", "count", "sum", "min", "max", "avg", "case", "when", "then", "else", "end",
    "describe", "summarize", "union all", "with", "desc", "asc", "interval", "now()",
    "_partition", "_offset", "_timestamp", "_key", "_headers",
)  # fmt: skip
# Quoted texts and comments, in which a semicolon ends nothing; an unclosed one reaches the end.
_OPAQUE: Final = re.compile(
    r"""'(?:[^']|'')*(?:'|\Z) | "(?:[^"]|"")*(?:"|\Z) | --[^\n]*(?:\n|\Z) | /\*.*?(?:\*/|\Z)
    | \$(\w*)\$.*?(?:\$\1\$|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_WORD: Final = re.compile(r"[\w.\-]+\Z")


def is_complete(text: str) -> bool:
    """Whether the text ends with a semicolon, apart from comments."""

    def blanked(found: re.Match[str]) -> str:
        is_comment = found[0].startswith(("--", "/*"))
        return " " if is_comment else "x"

    return _OPAQUE.sub(blanked, text).rstrip().endswith(";")


def completions(
    line: str, *, topics: Sequence[str], columns: Iterable[str], commands: Sequence[str] = _COMMANDS
) -> list[str]:
    """Commands, keywords, topics and columns that the last word may become."""
    if line.startswith(".") and " " not in line:
        return [each for each in commands if each.startswith(line)]
    found = _WORD.search(line)
    start = found[0].lower() if found is not None else ""
    words = dict.fromkeys((*topics, *columns, *_KEYWORDS))
    return [each for each in words if each.lower().startswith(start)][:_SUGGESTIONS_MAX]


class SqlShell:
    """Reads statements with `read`, which raises `EOFError` at the end, and runs them."""

    def __init__(
        self, session: "SqlSession", *, read: Callable[[str], str], rows_max: int, stats: bool
    ) -> None:
        self._session = session
        self._read = read
        self._rows_max = rows_max
        self._shows_statistics = stats
        self._format = OutputFormat.TABLE
        self._buffer = ""
        self._topics: list[str] | None = None
        self._is_open = True

    def run(self) -> None:
        """Run until the end of the input or `.quit`."""
        while self._is_open:
            try:
                line = self._read(CONTINUED if self._buffer else PROMPT)
            except EOFError:
                typer.echo()
                return
            except KeyboardInterrupt:
                # As in other shells: Ctrl-C drops what was typed.
                typer.echo()
                self._buffer = ""
                continue
            self._take(line)

    def complete(self, line: str) -> list[str]:
        """What the last word may become; nothing if the cluster cannot be asked."""
        try:
            topics = self._known_topics()
            named = {each for each in topics if each in f"{self._buffer}\n{line}"}
            columns = [
                name
                for topic in sorted(named)[:3]
                for name in self._session.table(topic).value_columns()
            ]
        except HeadwaterError:
            return []
        return completions(line, topics=topics, columns=columns)

    def _take(self, line: str) -> None:
        if not self._buffer and line.strip().startswith((".", "\\")):
            with _errors_printed():
                self._command(line.strip())
            return
        if not self._buffer and line.strip().rstrip(";").lower() in ("exit", "quit"):
            self._is_open = False
            return
        self._buffer = f"{self._buffer}\n{line}" if self._buffer else line
        if not self._buffer.strip():
            self._buffer = ""
        elif is_complete(self._buffer):
            text, self._buffer = self._buffer, ""
            with _errors_printed():
                for each in self._session.statements(text):
                    run_query(
                        self._session,
                        each,
                        self._format,
                        rows_max=self._rows_max,
                        shows_statistics=self._shows_statistics,
                    )

    def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        rest = rest.strip().rstrip(";")
        match name:
            case ".topics":
                for each in self._known_topics(is_new=True):
                    if rest in each:
                        typer.echo(each)
            case ".format" if rest in _FORMATS:
                self._format = OutputFormat(rest)
            case ".format":
                print_error(f"formats of the shell: {', '.join(_FORMATS)}")
            case ".rows" if rest.isdecimal():
                self._rows_max = int(rest)
            case ".rows":
                print_error("give a number of rows, such as .rows 100")
            case ".stats":
                self._shows_statistics = not self._shows_statistics
                typer.echo(f"statistics are {'on' if self._shows_statistics else 'off'}")
            case ".explain" | ".follow" if not rest:
                print_error(f"give a query: {name} select ...")
            case ".explain":
                typer.echo(self._session.explain(rest))
            case ".follow":
                follow_query(self._session, rest, self._format, self._rows_max)
            case ".refresh":
                self._session.refresh()
                self._topics = None
            case ".help":
                for command, text in _HELP:
                    typer.echo(f"{command:<16}{text}")
            case ".quit" | ".exit" | "\\q":
                self._is_open = False
            case _:
                print_error(f"no command {name}; .help lists them")

    def _known_topics(self, *, is_new: bool = False) -> list[str]:
        if self._topics is None or is_new:
            self._topics = self._session.topics()
        return self._topics


def run_shell(session: "SqlSession", bootstrap: str, *, rows_max: int, stats: bool) -> None:
    """Run the shell on this terminal, with history in a file of the user."""
    typer.echo(
        f"Topics of {bootstrap} as tables of DuckDB. End a query with a semicolon. "
        ".help lists commands, Ctrl-D exits."
    )
    shell = SqlShell(session, read=input, rows_max=rows_max, stats=stats)
    with _line_editing(shell.complete):
        shell.run()


@contextmanager
def _errors_printed() -> Iterator[None]:
    """Print errors of a query and go on; Ctrl-C ends only the query."""
    try:
        yield
    except HeadwaterError as error:
        print_error(str(error), error)
    except (typer.Exit, KeyboardInterrupt):
        warn(["cancelled"])
    except OSError as error:
        print_error(str(error.strerror or error), error)


@contextmanager
def _line_editing(complete: Callable[[str], list[str]]) -> Iterator[None]:
    """Edit lines with readline where Python has it: history, completion by Tab."""
    try:
        import readline
    except ImportError:
        yield
        return

    found: list[str] = []

    def suggestion(_text: str, index: int) -> str | None:
        nonlocal found
        if index == 0:
            found = complete(readline.get_line_buffer()[: readline.get_endidx()])
        return found[index] if index < len(found) else None

    file = history_file(os.environ)
    readline.set_completer(suggestion)
    readline.set_completer_delims(" \t\n,()=<>;\"'")
    readline.parse_and_bind("tab: complete")
    readline.set_history_length(HISTORY_MAX)
    # Before the first use there is no file.
    with suppress(OSError):
        readline.read_history_file(file)
    try:
        yield
    finally:
        readline.set_completer(None)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)
        except OSError as error:
            warn([f"the history is not saved: {error.strerror}: {file}"])


def history_file(environment: Mapping[str, str]) -> Path:
    """The file of the XDG standard for state that survives restarts."""
    state = environment.get("XDG_STATE_HOME")
    folder = Path(state) if state else Path.home() / ".local" / "state"
    return folder / "headwater" / "sql_history"
