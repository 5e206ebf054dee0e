"""The guide about SQL runs as written."""

import re
from pathlib import Path

from tests.tutorials.test_tutorials import LISTEN, Reader, broker


def test_commands_of_the_guide_run_as_written(tmp_path: Path) -> None:
    with broker(tmp_path) as ready:
        found = re.search(r"ready on (\S+)", ready)
        assert found is not None
        replaced = {LISTEN: found[1], "localhost:9092": found[1]}
        reader = Reader(tmp_path, replaced, printed=ready)
        reader.read("guides/sql.md")
    assert len(reader.run_commands) == 15
