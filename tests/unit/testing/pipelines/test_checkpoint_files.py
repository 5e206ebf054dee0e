"""Checkpoint files that the test kit edits."""

import json
from pathlib import Path

from headwater.testing.pipelines.checkpoint_files import last_batch, set_watermark, undo_commits


def checkpoint(folder: Path, batches: int) -> Path:
    for name in ("offsets", "commits"):
        (folder / name).mkdir()
        for number in range(batches):
            text = f'v1\n{{"nextBatchWatermarkMs":{number * 10},"more":{{}}}}'
            (folder / name / str(number)).write_text(text, encoding="utf-8")
            (folder / name / f".{number}.crc").write_bytes(b"sum")
    return folder


def test_the_watermark_of_the_next_batch_rises_and_the_checksum_goes(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, 3)
    commit = found / "commits" / "2"
    set_watermark(found, 5)
    assert json.loads(commit.read_text("utf-8").splitlines()[1])["nextBatchWatermarkMs"] == 20
    assert (found / "commits" / ".2.crc").exists()
    set_watermark(found, 70)
    version, text = commit.read_text("utf-8").splitlines()
    assert (version, json.loads(text)) == ("v1", {"nextBatchWatermarkMs": 70, "more": {}})
    assert not (found / "commits" / ".2.crc").exists()


def test_undone_commits_leave_the_offsets_of_the_batch_to_repeat(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, 4)
    undo_commits(found, 2)
    assert sorted(each.name for each in (found / "offsets").glob("[0-9]")) == ["0", "1", "2"]
    assert sorted(each.name for each in (found / "commits").glob("[0-9]")) == ["0", "1"]
    assert not (found / "commits" / ".2.crc").exists()
    assert last_batch(found) == 2
    assert last_batch(tmp_path / "none") == -1
