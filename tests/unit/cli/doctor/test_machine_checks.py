"""Each planted problem of a machine is found; a good machine has none."""

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.cli.doctor.diagnosis import Severity
from headwater.cli.doctor.machine_checks import MachineFacts, VolumeFacts, machine_findings
from headwater.cli.doctor.machine_facts import machine_facts, mount_of

GB = 1 << 30
DISK = VolumeFacts(
    directory="/var/lib/headwater",
    mount_point="/var",
    file_system="xfs",
    options=frozenset({"rw", "noatime"}),
    total_bytes=1_000 * GB,
    free_bytes=400 * GB,
)
GOOD = MachineFacts(
    open_files_limit=65_536,
    max_map_count=262_144,
    has_swap=True,
    swappiness=1,
    dirty_ratio=60,
    dirty_background_ratio=5,
    is_clock_synchronized=True,
    has_cachestat=True,
    has_dontcache=True,
    volumes=(DISK,),
)


def disk(**changes: object) -> MachineFacts:
    return replace(GOOD, volumes=(replace(DISK, **changes),))  # type: ignore[arg-type]


def test_good_machine_has_no_findings() -> None:
    assert machine_findings(GOOD) == []


def test_unknown_facts_are_not_judged() -> None:
    assert machine_findings(MachineFacts()) == []


@pytest.mark.parametrize(
    ("facts", "check", "severity"),
    [
        (replace(GOOD, open_files_limit=1_024), "open-files", Severity.WARNING),
        (replace(GOOD, max_map_count=1_000), "map-count", Severity.WARNING),
        (replace(GOOD, swappiness=60), "swappiness", Severity.WARNING),
        (replace(GOOD, dirty_background_ratio=20), "dirty-background-ratio", Severity.WARNING),
        (replace(GOOD, dirty_ratio=5), "dirty-ratio", Severity.WARNING),
        (replace(GOOD, is_clock_synchronized=False), "clock", Severity.WARNING),
        (replace(GOOD, has_cachestat=False), "cachestat", Severity.NOTE),
        (replace(GOOD, has_dontcache=False), "dontcache", Severity.NOTE),
        (disk(file_system="nfs4"), "file-system", Severity.WARNING),
        (disk(file_system="fuse.sshfs"), "file-system", Severity.WARNING),
        (disk(file_system="tmpfs"), "file-system", Severity.ERROR),
        (disk(options=frozenset({"ro"})), "mount-options", Severity.ERROR),
        (disk(options=frozenset({"rw", "nobarrier"})), "mount-options", Severity.ERROR),
        (disk(options=frozenset({"rw", "sync"})), "mount-options", Severity.WARNING),
        (disk(options=frozenset({"rw", "strictatime"})), "mount-options", Severity.WARNING),
        (disk(free_bytes=100 * GB), "free-space", Severity.WARNING),
        (disk(free_bytes=10 * GB), "free-space", Severity.ERROR),
    ],
)
def test_planted_problem_is_found(facts: MachineFacts, check: str, severity: Severity) -> None:
    (found,) = machine_findings(facts)
    assert (found.check, found.severity) == (check, severity)
    assert found.why.endswith(".")
    assert found.fix


def test_swappiness_does_not_matter_without_swap() -> None:
    assert machine_findings(replace(GOOD, swappiness=60, has_swap=False)) == []


def test_dirty_bytes_in_force_are_not_a_low_ratio() -> None:
    assert machine_findings(replace(GOOD, dirty_ratio=0)) == []


def test_facts_of_this_machine(tmp_path: Path) -> None:
    facts = machine_facts([tmp_path / "not" / "there" / "yet"])
    assert facts.open_files_limit is not None
    assert facts.open_files_limit > 0
    (volume,) = facts.volumes
    assert volume.file_system != "unknown"
    assert 0 <= volume.free_bytes <= volume.total_bytes
    assert tmp_path.is_relative_to(volume.mount_point)


def test_facts_come_from_proc(tmp_path: Path) -> None:
    vm = tmp_path / "sys" / "vm"
    vm.mkdir(parents=True)
    for name, value in {"swappiness": 60, "dirty_ratio": 7, "max_map_count": 100}.items():
        (vm / name).write_text(f"{value}\n")
    (tmp_path / "swaps").write_text("Filename Type\n/swap.img file\n")
    facts = machine_facts([], proc=tmp_path)
    assert (facts.swappiness, facts.dirty_ratio, facts.max_map_count) == (60, 7, 100)
    assert facts.has_swap
    assert facts.dirty_background_ratio is None
    checks = {each.check for each in machine_findings(facts)}
    assert {"swappiness", "dirty-ratio", "map-count"} <= checks


MOUNTS = r"""21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 21 8:2 / /data rw,noatime shared:2 - xfs /dev/sdb1 rw,attr2
31 21 8:3 / /data\040two rw - btrfs /dev/sdc1 rw
32 30 0:40 / /data/fast rw master:1 - nfs4 server:/export rw,vers=4.2
"""


@pytest.mark.parametrize(
    ("path", "point", "kind"),
    [
        ("/var/lib", "/", "ext4"),
        ("/data", "/data", "xfs"),
        ("/data/logs", "/data", "xfs"),
        ("/data two/logs", "/data two", "btrfs"),
        ("/data/fast/logs", "/data/fast", "nfs4"),
        ("/database", "/", "ext4"),
    ],
)
def test_mount_of_a_path_is_the_longest_that_holds_it(path: str, point: str, kind: str) -> None:
    mount_point, file_system, options = mount_of(Path(path), MOUNTS)
    assert (mount_point, file_system) == (point, kind)
    assert "rw" in options
