"""A file system whose reads are throttled: loop device, ext4, blkio controller of cgroup v1.

`blkio.throttle.read_bps_device` limits what the processes of a group read from a device. Writes go
to the page cache and are not limited. This needs root; `why_unavailable` says what is missing.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Final

_CONTROLLER: Final = Path("/sys/fs/cgroup/blkio")
_LIMIT: Final = "blkio.throttle.read_bps_device"
_SERVED: Final = "blkio.throttle.io_service_bytes"
_TOOLS: Final = ("losetup", "mkfs.ext4", "mount", "umount")


@dataclass(frozen=True, slots=True)
class ThrottledDisk:
    """A mounted file system, and the group of the processes that are throttled."""

    path: Path
    group: Path
    device: str

    def throttle(self, pid: int) -> None:
        """Throttle all threads of a process."""
        (self.group / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def read_bytes(self) -> int:
        """Return the bytes that the group has read from the device."""
        for line in (self.group / _SERVED).read_text(encoding="ascii").splitlines():
            fields = line.split()
            if fields[:2] == [self.device, "Read"]:
                return int(fields[2])
        return 0


def why_unavailable() -> str | None:
    """Return why there can be no throttled disk here, or None."""
    if os.geteuid() != 0:
        return "a throttled disk needs root"
    if not (_CONTROLLER / _LIMIT).exists():
        return f"a throttled disk needs cgroup v1 with {_CONTROLLER / _LIMIT}"
    missing = [tool for tool in _TOOLS if which(tool) is None]
    if missing:
        return f"a throttled disk needs {', '.join(missing)}"
    return None


@contextmanager
def throttled_disk(size_bytes: int, read_bytes_per_second: int) -> Iterator[ThrottledDisk]:
    """Mount an empty file system in a sparse file; remove everything at the end."""
    with ExitStack() as cleanup:
        parent = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="headwater-bench-"))
        image, path = Path(parent) / "image", Path(parent) / "disk"
        path.mkdir()
        with image.open("wb") as file:
            file.truncate(size_bytes)
        device = _run("losetup", "--find", "--show", str(image))
        cleanup.callback(_run, "losetup", "--detach", device)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", device)
        _run("mount", device, str(path))
        cleanup.callback(_run, "umount", str(path))
        number = Path(device).stat().st_rdev
        name = f"{os.major(number)}:{os.minor(number)}"
        group = _CONTROLLER / f"headwater-bench-{os.getpid()}"
        group.mkdir()
        cleanup.callback(group.rmdir)
        (group / _LIMIT).write_text(f"{name} {read_bytes_per_second}", encoding="ascii")
        yield ThrottledDisk(path, group, name)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
