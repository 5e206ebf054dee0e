"""The log dump of arbitrary files ends with findings and never with a traceback."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from headwater.cli.main import app
from tests.segments import batch, marker, record, texts, three_batches

STEM = "00000000000000000000"

SOUND = three_batches()
LOG = bytes(SOUND.log) + marker(6, commits=True) + batch(7, [record(0, None, None, [("h", b"x")])])
FILES = {
    ".log": LOG,
    ".index": bytes(SOUND.index),
    ".timeindex": bytes(SOUND.time_index),
    ".txnindex": bytes(range(68)),
    ".snapshot": b"\0\1" + bytes(range(60)),
}

edits = st.lists(
    st.tuples(st.integers(0, len(LOG) - 1), st.integers(0, 255)), min_size=1, max_size=6
)


def damaged(content: bytes, changes: list[tuple[int, int]], length: int) -> bytes:
    result = bytearray(content[:length])
    for position, value in changes:
        if position < len(result):
            result[position] = value
    return bytes(result)


@settings(max_examples=150, deadline=None)
@given(
    suffix=st.sampled_from(sorted(FILES)),
    changes=edits,
    length=st.integers(0, len(LOG)),
    flags=st.lists(st.sampled_from(["--json", "--records"]), unique=True),
)
def test_corrupt_file_gets_findings(
    suffix: str, changes: list[tuple[int, int]], length: int, flags: list[str]
) -> None:
    with TemporaryDirectory() as folder:
        for name, content in FILES.items():
            (Path(folder) / f"{STEM}{name}").write_bytes(content)
        path = Path(folder) / f"{STEM}{suffix}"
        path.write_bytes(damaged(FILES[suffix], changes, length))
        for target in (path, Path(folder) / f"{STEM}.log"):
            result = CliRunner().invoke(app, ["log", "dump", str(target), *flags])
            assert result.exit_code in (0, 1, 2), result.exception
            assert isinstance(result.exception, SystemExit | None)
            assert (result.exit_code == 0) == (result.stderr == "")


FIRST = batch(0, texts("a", "b"))
UNCOVERED_BYTES = 16
"""Base offset, length and leader epoch; the magic after them is checked by itself."""


@settings(max_examples=60, deadline=None)
@given(place=st.integers(UNCOVERED_BYTES, len(FIRST) - 1), flip=st.integers(1, 255))
def test_every_change_after_the_leader_epoch_is_detected(place: int, flip: int) -> None:
    content = bytearray(FIRST + batch(2, texts("c")))
    content[place] ^= flip
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{STEM}.log"
        path.write_bytes(content)
        assert CliRunner().invoke(app, ["log", "dump", str(path)]).exit_code != 0
