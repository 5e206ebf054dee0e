"""Run `headwater` commands against a broker, in this process."""

import json

from typer.testing import CliRunner, Result

from headwater.cli.main import app


class Shell:
    """Runs `headwater` commands."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(self, *words: str, given: str | bytes = "") -> Result:
        arguments = [*words, "--bootstrap", self.bootstrap]
        return CliRunner().invoke(app, arguments, input=given)

    def does(self, *words: str, given: str | bytes = "") -> str:
        result = self.run(*words, given=given)
        assert result.exit_code == 0, result.output
        return result.stdout

    def tells(self, *words: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.does(*words, "--json").splitlines()]
