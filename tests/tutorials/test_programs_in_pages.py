"""Run the programs of the pages in order."""

import os
import re
import subprocess
import sys
from pathlib import Path

from headwater.testing import EmbeddedBroker, EmbeddedRegistry

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 240


def programs(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def shown_output(page: str) -> str:
    """Return the output that the page shows."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))


def run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_programs_of_the_clients_page_run_in_order(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        code = "\n".join(programs("guides/clients.md")).replace(
            "localhost:9092", broker.bootstrap_servers
        )
        (tmp_path / "page.py").write_text(code, encoding="utf-8")
        printed = run(["page.py"], tmp_path)
    assert "not sent" not in printed
    assert "brewing b'oolong'" in printed
    assert "deleted: ['cider'] not deleted: ['cocoa']" in printed


def test_programs_of_the_schema_registry_page_run_in_order(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker, EmbeddedRegistry(broker.bootstrap_servers) as registry:
        code = "\n".join(programs("guides/schema-registry.md"))
        code = code.replace("localhost:9092", broker.bootstrap_servers)
        code = code.replace("http://localhost:8081", registry.url)
        (tmp_path / "page.py").write_text(code, encoding="utf-8")
        printed = run(["page.py"], tmp_path)
    first, framed, misfit, pot, refused, read = printed.splitlines()
    assert pot == "{'glaze': 'celadon', 'cups': 4}"
    assert framed == r"""b'\x00\x00\x00\x00\x02{"size":3}' {'size': 3}"""
    assert misfit in shown_output("guides/schema-registry.md")
    assert first == "[{'kind': 'green'}]"
    assert "The field 'price' at path '/fields/1'" in refused
    assert read == "{'kind': 'white', 'grams': None}"


def test_the_tests_in_the_page_about_testing_pass(tmp_path: Path) -> None:
    """Those with confluent-kafka; Django and FastAPI are no dependencies of ours."""
    shown = [code for code in programs("tutorials/testing.md") if "kafka_topic" in code][:3]
    assert all("django" not in code and "fastapi" not in code for code in shown)
    (tmp_path / "test_orders.py").write_text("\n\n".join(shown), encoding="utf-8")
    printed = run(["-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)], tmp_path)
    assert "3 passed" in printed
