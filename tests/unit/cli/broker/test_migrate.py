"""`headwater cluster migrate-to-kraft` checks the files of the new nodes."""

from pathlib import Path

import pytest

from headwater.cli.broker.migrate import _request
from headwater.common.exceptions import InvalidSetting


def test_a_node_that_would_start_as_a_standalone_broker_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    lines = (
        "process.roles=broker,controller",
        "node.id=1",
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names=CONTROLLER",
        "controller.quorum.voters=1@127.0.0.1:9093",
        f"log.dirs={tmp_path}/data",
    )
    config.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InvalidSetting, match="is a standalone broker without a metadata log"):
        _request(config, None, "MkU3OEVBNTcwNTJENDM2Qg", {}, ())
