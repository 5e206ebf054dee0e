"""`log dump` finds no damage in files of the storage engine, with which it shares no code."""

import json
from pathlib import Path

from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_header import Codec
from headwater.storage.io.os_disk import OsDisk
from tests.simulation.labs.log_lab import LogLab

SMALL = TopicSettings(segment_bytes=2048, index_interval_bytes=200)


def filled(folder: Path) -> LogLab:
    """Several segments with all codecs, and committed and aborted transactions."""
    lab = LogLab(SMALL, disk=OsDisk(), folder=folder)
    for step in range(60):
        lab.now_ms += 1_000
        lab.append(1 + step % 5, codec=Codec(step % 5), leader_epoch=step // 30)
        if step % 10 == 0:
            producer = 100 + step
            lab.append(2, producer=(producer, 0, 0), is_transactional=True, leader_epoch=step // 30)
            lab.end_transaction(producer, commit=step % 20 == 0, leader_epoch=step // 30)
    return lab


def dump(path: Path, *flags: str) -> str:
    result = CliRunner().invoke(app, ["log", "dump", str(path), *flags])
    assert result.stderr == ""
    assert result.exit_code == 0
    return result.stdout


def test_segments_and_indexes_of_a_closed_log_have_no_findings(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    filled(folder).log.close()
    summary = dump(folder).splitlines()
    assert len(summary) > 2
    assert all("with .index and .timeindex; no damage found" in line for line in summary)


def test_other_files_of_a_closed_log_have_no_findings(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    filled(folder).log.close()
    kinds = set()
    for path in sorted(folder.iterdir()):
        if path.name != "partition.metadata":
            dump(path)
            kinds.add(path.suffix or path.name)
    assert kinds >= {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}


def test_records_of_every_codec_are_printed(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    lab = filled(folder)
    end_offset = lab.log.end_offset
    lab.log.close()
    offsets = [
        record["offset"]
        for log in sorted(folder.glob("*.log"))
        for line in dump(log, "--records", "--json").splitlines()
        for record in json.loads(line).get("records", [])
    ]
    assert offsets == list(range(end_offset))


def test_an_open_log_has_no_findings(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    lab = filled(folder)
    assert "no damage found" in dump(folder)
    lab.log.close()
