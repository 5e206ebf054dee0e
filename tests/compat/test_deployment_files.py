"""Deployment files: valid by their own tools, with flags and settings that exist.

No container engine and no Kubernetes runs here: the files are validated, not started.
"""

import importlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from headwater.cli.broker.start import _FLAGS
from headwater.common.settings.topic_synonyms import all_broker_settings

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = [
    DEPLOY / "container/Containerfile",
    DEPLOY / "container/compose.yml",
    DEPLOY / "kubernetes/headwater.yaml",
]
# Of `headwater start`, registry and console, besides options for broker settings.
OTHER_FLAGS = {"--bootstrap", "--config", "--log-format", "--read-only", "--registry"}
# Of pip, apt-get, useradd and the container file itself.
BUILD_FLAGS = {
    "--create-home",
    "--from",
    "--home-dir",
    "--interval",
    "--no-cache-dir",
    "--no-install-recommends",
    "--start-period",
    "--system",
    "--timeout",
    "--uid",
    "--yes",
}


@pytest.mark.parametrize("file", FILES, ids=lambda each: each.name)
def test_flags_and_settings_exist(file: Path) -> None:
    text = re.sub(r"^\s*#.*$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
    assert flags - set(_FLAGS) - OTHER_FLAGS - BUILD_FLAGS == set()
    settings = set(re.findall(r"""-o "?([a-z][a-z.]*)=""", text))
    assert settings - set(all_broker_settings()) == set()


def test_compose_file_has_every_service() -> None:
    compose = yaml.safe_load((DEPLOY / "container/compose.yml").read_text(encoding="utf-8"))
    services = compose["services"]
    assert set(services) == {"zookeeper", "broker1", "broker2", "broker3", "registry", "console"}
    for number in (1, 2, 3):
        command = services[f"broker{number}"]["command"]
        assert f"--node-id {number} " in command
        assert f"INSIDE://broker{number}:9092,OUTSIDE://localhost:{19_091 + number}" in command


def test_kubernetes_manifests_are_valid() -> None:
    try:
        validator = importlib.import_module("kubernetes_validate")
    except ModuleNotFoundError:
        pytest.skip("kubernetes-validate is not installed (pip install kubernetes-validate)")
    text = (DEPLOY / "kubernetes/headwater.yaml").read_text(encoding="utf-8")
    for document in yaml.safe_load_all(text):
        validator.validate(document, validator.latest_version(), strict=True)


def test_kubernetes_probes_and_shutdown_fit_the_broker() -> None:
    text = (DEPLOY / "kubernetes/headwater.yaml").read_text(encoding="utf-8")
    kinds = {each["kind"]: each for each in yaml.safe_load_all(text)}
    pod = kinds["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert pod["securityContext"]["runAsNonRoot"] is True
    # The broker drains connections for 5 s after a controlled shutdown.
    assert pod["terminationGracePeriodSeconds"] >= 60
    assert kinds["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


def test_systemd_unit_is_valid(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    text = (DEPLOY / "systemd/headwater.service").read_text(encoding="utf-8")
    unit = tmp_path / "headwater.service"
    # The command must exist on the machine that verifies.
    unit.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={shutil.which('true')}", text))
    result = subprocess.run(
        [analyze, "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
