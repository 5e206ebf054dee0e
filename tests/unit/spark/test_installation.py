"""Checks of the installed packages, before Spark starts."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from headwater.spark.installation import (
    PACKAGE,
    UnsupportedSpark,
    check_spark_version,
    is_in_zip_file,
)


@pytest.mark.parametrize("version", ["3.5.1", "4.0.0", "4.1.4"])
def test_older_pyspark_is_refused_in_one_line(version: str) -> None:
    with pytest.raises(UnsupportedSpark) as refused:
        check_spark_version(version)
    assert str(refused.value) == (
        f"PySpark {version} is too old: Headwater needs 4.2 or 4.3; "
        "run pip install 'pyspark>=4.2,<4.4'"
    )


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "4.3.1.dev0", "5.0.0"])
def test_supported_and_newer_pyspark_pass(version: str) -> None:
    check_spark_version(version)


def test_spark_reads_the_refusal_where_it_looks_for_formats(tmp_path: Path) -> None:
    """Spark imports `pyspark_headwater` by itself; the refusal must be its error."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("__version__ = '4.1.0'")
    done = subprocess.run(
        [sys.executable, "-c", "import pyspark_headwater"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "PySpark 4.1.0 is too old" in done.stderr.splitlines()[-1]


def test_extras_and_refusal_name_the_same_versions() -> None:
    project = (PACKAGE.parents[1] / "pyproject.toml").read_text("utf-8")
    named = set(re.findall(r'"pyspark(?:\[\w+\])?([<>=][^"]*)"', project))
    assert named == {">=4.2,<4.4"}


def test_wheel_on_the_path_is_distinguished_from_an_installed_package(tmp_path: Path) -> None:
    assert not is_in_zip_file()
    wheel = tmp_path / "headwater.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for path in sorted(PACKAGE.rglob("*.py")):
            file.write(path, path.relative_to(PACKAGE.parent))
    program = "from headwater.spark.installation import *; print(kernel_warning())"
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    environment.pop("HEADWATER_PURE", None)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert "slower pure Python kernel" in done.stdout
    assert "cannot be imported from a zip file" in done.stdout
