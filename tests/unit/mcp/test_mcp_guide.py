"""The guide about language models names the tools that there are, and its client file works."""

import json
import re
from pathlib import Path

from typer.main import get_command

from headwater.cli.main import app
from headwater.mcp.bounded_answers import BYTES_MAX, ROWS_MAX, SECONDS_MAX
from headwater.mcp.cluster_tools import ClusterTools
from headwater.mcp.write_tools import WriteTools

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "mcp.md"


def public(cls: type) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_")}


def test_the_table_of_the_guide_has_every_tool() -> None:
    table = GUIDE.read_text(encoding="utf-8").partition("## Tools")[2].partition("\n\n`explain")[0]
    named = re.findall(r"`(\w+)`", "\n".join(line.split("|")[1] for line in table.splitlines()[3:]))
    assert set(named) == public(ClusterTools) | public(WriteTools)


def test_the_client_file_of_the_guide_has_a_command_that_exists() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    [shown] = re.findall(r"^```json\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    [server] = json.loads(shown)["mcpServers"].values()
    command, *arguments = server["args"]
    options = get_command(app).commands[command].params  # type: ignore[attr-defined]
    names = {name for each in options for name in each.opts}
    assert server["command"] == "headwater"
    assert {each for each in arguments if each.startswith("--")} <= names


def test_the_limits_of_the_guide_are_the_defaults_of_the_command() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    options = get_command(app).commands["mcp"].params  # type: ignore[attr-defined]
    defaults = {each.opts[0]: each.default for each in options}
    shown = {"--max-rows": ROWS_MAX, "--max-bytes": BYTES_MAX, "--timeout": SECONDS_MAX}
    for name, value in shown.items():
        assert defaults[name] == value
        assert f"| `{name}` | {value:,g} |" in text
