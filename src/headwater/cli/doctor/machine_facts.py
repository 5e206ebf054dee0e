"""Collect the facts about this machine that `machine_checks` judges.

Linux only: elsewhere nearly all of them are unknown, and unknown facts are not judged.
"""

import ctypes
import os
import resource
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from headwater.cli.doctor.machine_checks import MachineFacts, VolumeFacts
from headwater.storage.io.cold_read import RWF_DONTCACHE
from headwater.storage.io.page_cache_residency import CachestatResidency

_PAGE_BYTES: Final = 4_096
_UNSYNCHRONIZED: Final = 0x40
# struct timex: modes and status are ints at these positions on 64-bit Linux.
_TIMEX_BYTES: Final = 208
_STATUS_POSITION: Final = 40
_ESCAPES: Final = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\134": "\\"}


def machine_facts(directories: Sequence[Path], *, proc: Path = Path("/proc")) -> MachineFacts:
    """Read the facts; `directories` are log directories, or parents of future ones."""
    vm = proc / "sys" / "vm"
    scratch = next((each for each in map(_existing, directories) if os.access(each, os.W_OK)), None)
    has_cachestat, has_dontcache = _page_cache_calls(scratch or Path(tempfile.gettempdir()))
    return MachineFacts(
        open_files_limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        max_map_count=_number(vm / "max_map_count"),
        has_swap=_has_swap(proc / "swaps"),
        swappiness=_number(vm / "swappiness"),
        dirty_ratio=_number(vm / "dirty_ratio"),
        dirty_background_ratio=_number(vm / "dirty_background_ratio"),
        is_clock_synchronized=_is_clock_synchronized(),
        has_cachestat=has_cachestat,
        # A file system in memory cannot tell.
        has_dontcache=has_dontcache if scratch is not None else None,
        volumes=tuple(_volume(each, proc / "self" / "mountinfo") for each in directories),
    )


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _has_swap(path: Path) -> bool:
    try:
        # The first line is a title.
        return len(path.read_text(encoding="utf-8").splitlines()) > 1
    except OSError:
        return False


def _is_clock_synchronized() -> bool | None:
    """Ask the kernel, which NTP clients tell."""
    try:
        buffer = ctypes.create_string_buffer(_TIMEX_BYTES)
        if ctypes.CDLL(None).adjtimex(buffer) < 0:
            return None
    except (AttributeError, OSError):
        return None
    status = int.from_bytes(buffer.raw[_STATUS_POSITION : _STATUS_POSITION + 4], "little")
    return not status & _UNSYNCHRONIZED


def _page_cache_calls(directory: Path) -> tuple[bool | None, bool | None]:
    """Return whether cachestat and RWF_DONTCACHE work in a directory."""
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(_PAGE_BYTES))
            file.flush()
            has_cachestat = CachestatResidency().cached_pages(file.fileno(), 0, _PAGE_BYTES) >= 0
            has_dontcache = False
            with suppress(OSError):
                os.preadv(file.fileno(), [bytearray(_PAGE_BYTES)], 0, RWF_DONTCACHE)
                has_dontcache = True
            return has_cachestat, has_dontcache
    except (OSError, AttributeError):
        return None, None


def _existing(directory: Path) -> Path:
    """Return the directory, or its nearest parent that exists."""
    return next(each for each in (directory, *directory.parents) if each.exists())


def _volume(directory: Path, mountinfo: Path) -> VolumeFacts:
    found = _existing(directory.absolute())
    usage = shutil.disk_usage(found)
    mount_point, file_system, options = "/", "unknown", frozenset[str]()
    with suppress(OSError):
        mount_point, file_system, options = mount_of(
            found.resolve(), mountinfo.read_text(encoding="utf-8")
        )
    return VolumeFacts(
        directory=str(directory),
        mount_point=mount_point,
        file_system=file_system,
        options=options,
        total_bytes=usage.total,
        free_bytes=usage.free,
    )


def mount_of(path: Path, mountinfo: str) -> tuple[str, str, frozenset[str]]:
    """Return mount point, type and options of the file system that a path is on."""
    best = ("/", "unknown", frozenset[str]())
    for line in mountinfo.splitlines():
        # 36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=continue
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        point = _unescaped(fields[4])
        # Later lines are mounted over earlier ones.
        if path.is_relative_to(point) and len(point) >= len(best[0]):
            options = frozenset(fields[5].split(",")) | frozenset(tail[2].split(","))
            best = (point, tail[0], options)
    return best


def _unescaped(text: str) -> str:
    for escape, character in _ESCAPES.items():
        text = text.replace(escape, character)
    return text
