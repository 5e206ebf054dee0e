"""Connectors in pipelines, as far as a check without Spark goes."""

from pathlib import Path

import pytest

from headwater.connect.pipeline_connectors import InstalledConnectors
from headwater.pipelines.check.connector_port import Connectors


def installed() -> Connectors:
    return InstalledConnectors()


def test_built_in_connectors_are_found() -> None:
    assert {"files", "postgresql"} <= set(installed().source_names())
    assert {"files", "postgresql"} <= set(installed().sink_names())


def test_unknown_connector_is_not_found() -> None:
    with pytest.raises(KeyError):
        installed().source("weather")
    with pytest.raises(KeyError):
        installed().sink("weather")


def test_invalid_options_are_reported_before_anything_runs(tmp_path: Path) -> None:
    for connector in (installed().source("files"), installed().sink("files")):
        good = {"path": str(tmp_path), "format": "csv"}
        (complaint,) = connector.problems({**good, "pth": "x"})
        assert complaint == "the connector has no option pth; did you mean path?"
        assert connector.problems(good) == []
