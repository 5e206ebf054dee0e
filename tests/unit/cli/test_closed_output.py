"""A reader that closes the pipe early, as `head` does."""

import subprocess
import sys
from pathlib import Path

from headwater.records.batch_building import build_batch
from headwater.records.record import Record

COMMAND = "from headwater.cli.main import app; app()"


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    record = Record(value=b"v", timestamp=1)
    # More lines than the pipe buffers, so that the writer notices.
    segment.write_bytes(
        b"".join(build_batch([record], base_offset=offset) for offset in range(5000))
    )
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from headwater.cli.main import app; app()",
            "log",
            "dump",
            str(segment),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as dump:
        assert dump.stdout is not None
        assert dump.stderr is not None
        dump.stdout.readline()
        dump.stdout.close()
        assert dump.stderr.read() == b""
