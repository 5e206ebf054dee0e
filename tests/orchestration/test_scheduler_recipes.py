"""The recipes for Airflow and Dagster as their page has them, killed after the write and retried.

`make test-orchestration` installs both into a virtual environment of its own.
"""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from headwater.client import Producer
from headwater.testing import EmbeddedBroker

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv" / "orchestration" / "bin" / "python"
TIMEOUT_S = 600

# Stops between the write and the commit. Schedulers redirect Python's output, not the descriptor.
WAIT = """\
import os
from pathlib import Path
write_bytes = Path.write_bytes
def write_and_wait(file, data):
    write_bytes(file, data)
    if "DIES" in os.environ and file.suffix == ".jsonl":
        os.write(1, b"written\\n")
        os.read(0, 1)
Path.write_bytes = write_and_wait
"""
AIRFLOW = f"""{WAIT}
from recipe import orders
run = orders().test()
assert run.state == "success", run.state
"""
DAGSTER = f"""{WAIT}
import dagster as dg
from recipe import orders
assert dg.materialize([orders]).success
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="run `make test-orchestration`"),
]


def recipe(scheduler: str) -> str:
    page = (ROOT / "docs" / "guides" / "orchestration.md").read_text(encoding="utf-8")
    section = page.partition(f"## {scheduler}\n")[2]
    found = re.search(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def send(broker: EmbeddedBroker, *values: bytes) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send("orders", value)


@pytest.mark.parametrize(("scheduler", "driver"), [("Airflow", AIRFLOW), ("Dagster", DAGSTER)])
def test_a_killed_run_is_retried_and_has_each_record_once(
    scheduler: str, driver: str, tmp_path: Path
) -> None:
    with EmbeddedBroker() as broker:
        text = recipe(scheduler).replace("localhost:9092", broker.bootstrap_servers)
        (tmp_path / "recipe.py").write_text(text.replace("/srv", str(tmp_path)), encoding="utf-8")
        (tmp_path / "driver.py").write_text(driver, encoding="utf-8")
        environment = {
            **os.environ,
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path),
            "DAGSTER_HOME": "",
        }
        if scheduler == "Airflow":
            command = [str(PYTHON.with_name("airflow")), "db", "migrate"]
            done = subprocess.run(
                command, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
            )
            assert done.returncode == 0, done.stderr.decode()[-2_000:]
        send(broker, b"a", b"b")
        with subprocess.Popen(
            [PYTHON, "driver.py"],
            cwd=tmp_path,
            env={**environment, "DIES": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as killed:
            assert killed.stdout is not None
            printed = []
            for line in killed.stdout:
                printed.append(line)
                if line.endswith(b"written\n"):
                    break
            else:
                raise AssertionError(b"".join(printed).decode()[-4_000:])
            killed.send_signal(signal.SIGKILL)
        send(broker, b"c")
        for _ in range(3):
            run = subprocess.run(
                [PYTHON, "driver.py"],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            assert run.returncode == 0, (run.stdout + run.stderr).decode()[-4_000:]
    files = (tmp_path / "lake" / "orders").iterdir()
    assert sorted(each.read_bytes() for each in files) == [b"a\nb\n", b"c\n"]
