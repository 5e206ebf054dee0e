"""The archive of packages for executors."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from headwater.spark import packed_environment
from headwater.spark.packed_environment import (
    UnknownPackage,
    normalized,
    pack_environment,
    required_distributions,
    requirements,
)


def test_requirements_of_other_extras_are_left_out() -> None:
    lines = [
        "cramjam>=2.9",
        "pyspark[connect]<4.4,>=4.2; extra == 'spark'",
        'mkdocs-material; extra == "dev"',
        "tomli; python_version < '3.11'",
    ]
    assert requirements(lines, frozenset({"spark"})) == [
        ("cramjam", frozenset()),
        ("pyspark", frozenset({"connect"})),
        ("tomli", frozenset()),
    ]


def test_the_closure_has_what_workers_import_and_not_spark() -> None:
    found = required_distributions("headwater", frozenset({"spark"}))
    assert {"headwater", "pyarrow", "cramjam", "numpy", "pandas"} <= set(found)
    assert not {"pyspark", "py4j", "pytest", "mypy"} & set(found)


def test_an_unknown_package_is_refused() -> None:
    with pytest.raises(UnknownPackage, match="no-such-package is not installed"):
        required_distributions("no-such-package", frozenset())


def test_names_are_normalized() -> None:
    assert normalized("Typing_Extensions") == normalized("typing.extensions")


def test_the_archive_starts_python_with_its_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the compiled kernel, and without this environment's packages."""
    monkeypatch.setattr(packed_environment, "_EXTRAS", frozenset())
    # The largest one; the record kernel does not need it.
    left_out = packed_environment._LEFT_OUT | {"pyarrow"}
    monkeypatch.setattr(packed_environment, "_LEFT_OUT", left_out)
    names = pack_environment(tmp_path / "env.tar.gz")
    assert any(each.startswith("headwater ") for each in names)
    with tarfile.open(tmp_path / "env.tar.gz") as archive:
        archive.extractall(tmp_path / "env", filter="data")
    described = json.loads((tmp_path / "env" / "headwater-package.json").read_text())
    assert described["packages"] == names
    program = """
import sys, cramjam
from headwater.records.kernel import IS_COMPILED, _kernel
print(IS_COMPILED, _kernel.__file__, cramjam.__file__)
"""
    # Not that of the virtual environment, which has the packages installed.
    python = str(Path(sys._base_executable))  # type: ignore[attr-defined]
    done = subprocess.run(
        [tmp_path / "env" / "bin" / "headwater-python", "-c", program],
        env={"HEADWATER_PYTHON": python, "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
    )
    is_compiled, *files = done.stdout.split()
    assert is_compiled == "True"
    assert all(each.startswith(str(tmp_path / "env" / "lib")) for each in files)
