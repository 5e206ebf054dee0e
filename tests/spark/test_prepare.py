"""`headwater pipeline prepare`: Java writes a class archive, and sessions start with it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_SESSION = """
from headwater.spark import session
spark = session("local[2]")
print(spark.conf.get("spark.driver.extraJavaOptions"))
print(spark.range(1000).selectExpr("sum(id)").collect()[0][0])
spark.stop()
"""


@pytest.mark.slow
def test_session_starts_with_the_prepared_archive(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    prepare = ("-m", "headwater", "pipeline", "prepare", "--json")
    first = json.loads(run(*prepare))
    assert first["is_new"]
    assert json.loads(run(*prepare)) == {"file": first["file"], "is_new": False}
    options, total = run("-c", _SESSION).splitlines()
    assert f"-XX:SharedArchiveFile={first['file']}" in options
    assert total == str(sum(range(1_000)))
    assert [each.name for each in (tmp_path / "headwater" / "spark").iterdir()] == [
        Path(first["file"]).name
    ]
