"""The shell of `headwater sql`: statements over several lines, commands, completion, history."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater.sql
from headwater.cli.data.sql_shell import SqlShell, completions, history_file, is_complete
from headwater.client import Admin, NewTopic, Producer
from headwater.testing import EmbeddedBroker
from tests.unit.cli.pseudo_terminal import Terminal


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name="teas", partitions=1)])
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for kind in ("green", "black"):
                producer.send("teas", value=json.dumps({"kind": kind}).encode())
        yield broker


def run(broker: EmbeddedBroker, *lines: str | type[BaseException]) -> list[str]:
    """Give the lines to a shell; return its prompts."""
    given = iter(lines)
    prompts = []

    def read(prompt: str) -> str:
        prompts.append(prompt.strip())
        line = next(given, EOFError)
        if isinstance(line, str):
            return line
        raise line

    with headwater.sql.connect(broker.bootstrap_servers) as session:
        SqlShell(session, read=read, rows_max=100, stats=False).run()
    return prompts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1;", True),
        ("select 1; -- done", True),
        ("select 1", False),
        ("select ';", False),
        ("select ';'", False),
        ("select ';';", True),
        ('select ";" /* ;', False),
        ("select $$;", False),
        ("select 1 -- ;", False),
    ],
)
def test_a_statement_ends_with_a_semicolon_outside_of_texts_and_comments(
    text: str, expected: bool
) -> None:
    assert is_complete(text) is expected


def test_completions_are_commands_topics_columns_and_keywords() -> None:
    words = {"topics": ["orders", "or-ders.eu"], "columns": ["origin"]}
    assert completions(".to", **words) == [".topics"]
    assert completions("select or", **words) == ["orders", "or-ders.eu", "origin", "order by", "or"]
    assert completions("select * from or-ders.", **words) == ["or-ders.eu"]


def test_a_query_spans_lines_and_an_error_does_not_end_the_shell(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = run(
        broker, "selct 1;", "select kind", "from teas order by kind;", "", "select 2 as two;"
    )
    assert prompts == ["headwater>", "headwater>", "...>", "headwater>", "headwater>", "headwater>"]
    printed = capsys.readouterr()
    assert printed.out.split() == ["kind", "black", "green", "two", "2"]
    assert "syntax error" in printed.err.lower()


def test_ctrl_c_drops_what_was_typed(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    run(broker, "select broken from", KeyboardInterrupt, "select 3 as three;")
    printed = capsys.readouterr()
    assert (printed.out.split(), printed.err) == (["three", "3"], "")


def test_commands_of_the_shell(broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]) -> None:
    run(
        broker,
        ".topics tea",
        ".format csv",
        "select kind from teas limit 1;",
        ".nonsense",
        ".quit",
        "x",
    )
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["teas", '"kind"', '"green"']
    assert "no command .nonsense" in printed.err


def test_columns_of_the_topics_in_the_statement_are_suggested(broker: EmbeddedBroker) -> None:
    with headwater.sql.connect(broker.bootstrap_servers) as session:
        shell = SqlShell(session, read=input, rows_max=100, stats=False)
        assert shell.complete("select * from te") == ["teas"]
        assert shell.complete("select count(*) from teas where ki") == ["kind"]


def test_the_history_is_kept_in_the_state_folder_of_the_user(tmp_path: Path) -> None:
    file = history_file({"XDG_STATE_HOME": str(tmp_path)})
    assert file == tmp_path / "headwater" / "sql_history"


def test_tab_completes_and_the_history_is_saved(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    terminal = Terminal(broker, "sql")
    terminal.shows("headwater> ")
    terminal.types("select kind from te\t order by kind;\n")
    terminal.shows("black")
    terminal.shows("green")
    terminal.types(".quit\n")
    assert terminal.ends() == 0
    history = (tmp_path / "headwater" / "sql_history").read_text()
    assert "select kind from teas order by kind;" in history
