"""Move the watermark and undo commits in a stopped query's checkpoint.

Spark reads the watermark of the next batch from the commit of the last one, so changing it there
moves event time without an event. And a batch that has offsets and no commit is repeated, as after
a driver that died between the sink's write and Spark's commit.
"""

import json
from pathlib import Path
from typing import Final

_VERSION_LINES: Final = 1


def last_batch(checkpoint: Path) -> int:
    """The id of the last planned batch; -1 if there is none."""
    return max(_ids(checkpoint / "offsets"), default=-1)


def set_watermark(checkpoint: Path, watermark_ms: int) -> None:
    """Have the next batch begin with this watermark, unless it is higher already."""
    file = checkpoint / "commits" / str(last_batch(checkpoint))
    *version, text = file.read_text(encoding="utf-8").splitlines()
    assert len(version) == _VERSION_LINES, f"unknown form of {file}"
    commit = json.loads(text)
    if commit["nextBatchWatermarkMs"] < watermark_ms:
        commit["nextBatchWatermarkMs"] = watermark_ms
        file.write_text("\n".join([*version, json.dumps(commit)]), encoding="utf-8")
        _checksum(file).unlink(missing_ok=True)


def undo_commits(checkpoint: Path, first: int) -> None:
    """Have the batch `first` repeated, as if the ones after it had never been planned."""
    for folder, kept in (("offsets", first), ("commits", first - 1)):
        for number in _ids(checkpoint / folder):
            if number > kept:
                file = checkpoint / folder / str(number)
                file.unlink()
                _checksum(file).unlink(missing_ok=True)


def _ids(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return [int(each.name) for each in folder.iterdir() if each.name.isdigit()]


def _checksum(file: Path) -> Path:
    """Hadoop's checksum of a file, which is not verified where there is none."""
    return file.with_name(f".{file.name}.crc")
