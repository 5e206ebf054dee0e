"""Names of segment files."""

import pytest

from headwater.storage.log.segment_files import SegmentFile, file_name, parse_name


@pytest.mark.parametrize("kind", [".log", ".index", ".timeindex", ".txnindex"])
@pytest.mark.parametrize("suffix", ["", ".cleaned", ".swap", ".deleted"])
def test_file_names_are_parsed_as_formatted(kind: str, suffix: str) -> None:
    name = file_name(170, kind, suffix)
    assert name == "00000000000000000170" + kind + suffix
    assert parse_name(name) == SegmentFile(base_offset=170, kind=kind, suffix=suffix)


@pytest.mark.parametrize(
    "name",
    [
        "leader-epoch-checkpoint",
        "partition.metadata",
        "00000000000000000170.snapshot",
        "00000000000000000170.snapshot.deleted",
        "170.log",
        "00000000000000000170.log.tmp",
        "-0000000000000000170.log",
    ],
)
def test_other_files_are_not_segment_files(name: str) -> None:
    assert parse_name(name) is None
