"""Decide which properties of a machine are problems for a broker. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headwater.cli.doctor.diagnosis import Diagnosis, Severity

# A broker keeps up to 8,192 segment files open (headwater.open.files.max), besides connections.
MIN_OPEN_FILES: Final = 16_384
# The default of Linux.
MIN_MAP_COUNT: Final = 65_530
MAX_SWAPPINESS: Final = 10
MAX_DIRTY_BACKGROUND_RATIO: Final = 10
MIN_DIRTY_RATIO: Final = 20
MIN_FREE_PERCENT: Final = 15

_NETWORK_FILE_SYSTEMS: Final = ("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "9p")
_VOLATILE_FILE_SYSTEMS: Final = ("tmpfs", "ramfs")
_UNSAFE_OPTIONS: Final = ("nobarrier", "barrier=0")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeFacts:
    """A log directory and the mounted file system that it is on."""

    directory: str
    mount_point: str
    file_system: str
    options: frozenset[str]
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What the system reports; None where it does not."""

    open_files_limit: int | None = None
    max_map_count: int | None = None
    has_swap: bool = False
    swappiness: int | None = None
    dirty_ratio: int | None = None
    dirty_background_ratio: int | None = None
    is_clock_synchronized: bool | None = None
    has_cachestat: bool | None = None
    has_dontcache: bool | None = None
    volumes: tuple[VolumeFacts, ...] = ()


def machine_findings(facts: MachineFacts) -> list[Diagnosis]:
    """Return the problems, in the order of the checks."""
    found = [*_limits(facts), *_memory(facts), *_clock(facts), *_page_cache(facts)]
    for volume in facts.volumes:
        found += _volume(volume)
    return found


def _limits(facts: MachineFacts) -> Iterator[Diagnosis]:
    if facts.open_files_limit is not None and facts.open_files_limit < MIN_OPEN_FILES:
        yield Diagnosis(
            check="open-files",
            severity=Severity.WARNING,
            subjects=("RLIMIT_NOFILE",),
            problem=f"the limit of open files is {facts.open_files_limit}",
            why="Each connection and each open segment takes a descriptor; without any left, "
            "connections are refused and log directories go offline.",
            fix=f"ulimit -n {4 * MIN_OPEN_FILES} (systemd: LimitNOFILE={4 * MIN_OPEN_FILES})",
        )
    if facts.max_map_count is not None and facts.max_map_count < MIN_MAP_COUNT:
        yield Diagnosis(
            check="map-count",
            severity=Severity.WARNING,
            subjects=("vm.max_map_count",),
            problem=f"vm.max_map_count is {facts.max_map_count}, below the kernel's default",
            why="Indexes and read buffers are memory maps; a broker with many segments runs out.",
            fix="sysctl -w vm.max_map_count=262144",
        )


def _memory(facts: MachineFacts) -> Iterator[Diagnosis]:
    if facts.has_swap and facts.swappiness is not None and facts.swappiness > MAX_SWAPPINESS:
        yield Diagnosis(
            check="swappiness",
            severity=Severity.WARNING,
            subjects=("vm.swappiness",),
            problem=f"vm.swappiness is {facts.swappiness} and the machine has swap",
            why="A broker that is swapped out for page cache answers seconds late, and followers "
            "leave the ISR.",
            fix="sysctl -w vm.swappiness=1",
        )
    background = facts.dirty_background_ratio
    if background is not None and background > MAX_DIRTY_BACKGROUND_RATIO:
        yield Diagnosis(
            check="dirty-background-ratio",
            severity=Severity.WARNING,
            subjects=("vm.dirty_background_ratio",),
            problem=f"vm.dirty_background_ratio is {background}",
            why="Writing back starts late and comes in bursts, which delay reads from disk.",
            fix="sysctl -w vm.dirty_background_ratio=5",
        )
    # Zero means that vm.dirty_bytes is in force.
    if facts.dirty_ratio is not None and 0 < facts.dirty_ratio < MIN_DIRTY_RATIO:
        yield Diagnosis(
            check="dirty-ratio",
            severity=Severity.WARNING,
            subjects=("vm.dirty_ratio",),
            problem=f"vm.dirty_ratio is {facts.dirty_ratio}",
            why="Appends block until pages are written back as soon as so little memory is dirty.",
            fix="sysctl -w vm.dirty_ratio=60",
        )


def _clock(facts: MachineFacts) -> Iterator[Diagnosis]:
    if facts.is_clock_synchronized is False:
        yield Diagnosis(
            check="clock",
            severity=Severity.WARNING,
            subjects=("system clock",),
            problem="according to the kernel, no NTP client synchronizes the clock",
            why="Retention, LogAppendTime and lag in time compare clocks of several machines.",
            fix="start an NTP client, such as chronyd; with systemd: timedatectl set-ntp true",
        )


def _page_cache(facts: MachineFacts) -> Iterator[Diagnosis]:
    if facts.has_cachestat is False:
        yield Diagnosis(
            check="cachestat",
            severity=Severity.NOTE,
            subjects=("kernel",),
            problem="the kernel has no cachestat (Linux 6.5)",
            why="Whether a fetch is in the page cache is sampled; some cold reads block the "
            "event loop.",
            fix="upgrade to Linux 6.5 or later",
        )
    if facts.has_dontcache is False:
        yield Diagnosis(
            check="dontcache",
            severity=Severity.NOTE,
            subjects=("kernel or file system",),
            problem="reads with RWF_DONTCACHE are not supported (Linux 6.14, ext4 or XFS)",
            why="Cold reads use O_DIRECT instead, which takes more CPU per byte.",
            fix="upgrade to Linux 6.14 or later, with log directories on ext4 or XFS",
        )


def _volume(volume: VolumeFacts) -> Iterator[Diagnosis]:
    where = (volume.directory,)
    kind, options = volume.file_system, volume.options
    if kind in _NETWORK_FILE_SYSTEMS or kind.startswith("fuse"):
        yield Diagnosis(
            check="file-system",
            severity=Severity.WARNING,
            subjects=where,
            problem=f"the log directory is on {kind}",
            why="Renames and syncs of a network file system are slow, and not all of them are "
            "durable or atomic; replication already stores several copies.",
            fix="move the log directory to a local disk with XFS or ext4",
        )
    if kind in _VOLATILE_FILE_SYSTEMS:
        yield Diagnosis(
            check="file-system",
            severity=Severity.ERROR,
            subjects=where,
            problem=f"the log directory is on {kind}, in memory",
            why="All records are lost when the machine restarts.",
            fix="move the log directory to a disk",
        )
    if "ro" in options:
        yield Diagnosis(
            check="mount-options",
            severity=Severity.ERROR,
            subjects=where,
            problem=f"{volume.mount_point} is mounted read-only",
            why="The broker cannot start; Linux mounts a file system so after a disk error.",
            fix=f"check the disk (dmesg), then mount -o remount,rw {volume.mount_point}",
        )
    unsafe = sorted(options.intersection(_UNSAFE_OPTIONS))
    if unsafe:
        yield Diagnosis(
            check="mount-options",
            severity=Severity.ERROR,
            subjects=where,
            problem=f"{volume.mount_point} is mounted with {','.join(unsafe)}",
            why="A power cut can lose data that was synced.",
            fix=f"mount -o remount,barrier {volume.mount_point}",
        )
    slow = sorted(options.intersection(("sync", "strictatime")))
    if slow:
        yield Diagnosis(
            check="mount-options",
            severity=Severity.WARNING,
            subjects=where,
            problem=f"{volume.mount_point} is mounted with {','.join(slow)}",
            why="Every append or read then waits for the disk.",
            fix=f"mount -o remount,async,noatime {volume.mount_point}",
        )
    yield from _space(volume)


def _space(volume: VolumeFacts) -> Iterator[Diagnosis]:
    if not volume.total_bytes:
        return
    percent = 100 * volume.free_bytes // volume.total_bytes
    if percent < MIN_FREE_PERCENT:
        yield Diagnosis(
            check="free-space",
            severity=Severity.WARNING if percent >= MIN_FREE_PERCENT // 3 else Severity.ERROR,
            subjects=(volume.directory,),
            problem=f"{percent}% of {volume.mount_point} is free",
            why="On a full disk the log directory goes offline, and a broker without another one "
            "stops.",
            fix="headwater configs alter --topic TOPIC retention.ms=..., or enlarge the volume",
        )
