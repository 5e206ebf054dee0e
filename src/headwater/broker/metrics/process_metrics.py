"""Metrics of this process, under the names that every Prometheus exporter uses.

They are read from /proc at each scrape. Without /proc, as on macOS, there is only the CPU time.
"""

import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import headwater
from headwater.broker.metrics.prometheus_exposition import Family, Number, Sample, counter

_PROC = Path("/proc/self")


def process_families() -> list[Family]:
    version = (("version", headwater.__version__),)
    return [
        Family(
            name="headwater_build_info",
            kind="gauge",
            doc="Version of Headwater.",
            samples=lambda: [Sample(value=1, labels=version)],
        ),
        counter(
            "process_cpu_seconds_total", "CPU time of this process in seconds.", time.process_time
        ),
        _of_proc("process_resident_memory_bytes", "Resident memory in bytes.", _resident_bytes),
        _of_proc("process_open_fds", "Open file descriptors.", _open_files),
        _of_proc("process_max_fds", "Limit of open file descriptors.", _open_files_max),
        _of_proc("process_start_time_seconds", "Start time in seconds since the epoch.", _start_s),
    ]


def process_age_s() -> float | None:
    """Return the age of this process in seconds; None if the system has no answer."""
    try:
        return _since_boot_s() - _start_since_boot_s()
    except OSError:
        return None


def _of_proc(name: str, doc: str, read: Callable[[], Number]) -> Family:
    def samples() -> Iterator[Sample]:
        try:
            value = read()
        except OSError:
            return
        yield Sample(value=value)

    return Family(name=name, kind="gauge", doc=doc, samples=samples)


def _resident_bytes() -> int:
    pages = (_PROC / "statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def _open_files() -> int:
    # One of them is open for this listing.
    return sum(1 for _ in (_PROC / "fd").iterdir()) - 1


def _open_files_max() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _start_s() -> float:
    # Computed from the boot time, which is in whole seconds: computed from the clock, the value
    # would vary between scrapes and look like a restart.
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    boot_s = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    return boot_s + _start_since_boot_s()


def _since_boot_s() -> float:
    return float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])


def _start_since_boot_s() -> float:
    # The second field is the program's name in parentheses, which may contain anything.
    fields = (_PROC / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")
