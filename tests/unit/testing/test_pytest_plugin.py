"""The pytest plugin, in a pytest run of its own."""

import subprocess
import sys
from pathlib import Path


def pytest_on(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(code, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_fixture_is_there_without_being_asked_for(tmp_path: Path) -> None:
    run = pytest_on(
        tmp_path,
        "import pathlib\n"
        "def test_one(headwater_broker):\n"
        "    assert headwater_broker.is_running\n"
        "    pathlib.Path('address').write_text(headwater_broker.bootstrap_servers)\n"
        "def test_two(headwater_broker):\n"
        "    assert pathlib.Path('address').read_text() == headwater_broker.bootstrap_servers\n",
    )
    assert "2 passed" in run.stdout, run.stdout


def test_a_project_can_have_its_own_settings_and_hears_why_they_are_wrong(tmp_path: Path) -> None:
    run = pytest_on(
        tmp_path,
        "import pytest\n"
        "@pytest.fixture(scope='session')\n"
        "def headwater_settings():\n"
        "    return {'num.partitons': 3}\n"
        "def test_one(headwater_broker):\n"
        "    pass\n",
    )
    assert run.returncode == 1
    assert "did you mean num.partitions?" in run.stdout
    assert "Traceback" not in run.stdout


def test_a_run_without_brokers_pays_for_none(tmp_path: Path) -> None:
    run = pytest_on(
        tmp_path,
        "import sys\n"
        "def test_one():\n"
        "    rooms = [name for name in sys.modules if name.startswith('headwater.')]\n"
        "    assert rooms == ['headwater.testing', 'headwater.testing.pytest_plugin'], rooms\n",
    )
    assert "1 passed" in run.stdout, run.stdout
