"""What the system knows of this process, under the names that every Prometheus exporter uses.

A shell: it reads /proc, at each scrape and never otherwise. Where there is no /proc, as on macOS,
there is the processor time and nothing else.
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
            doc="Which Headwater this is.",
            samples=lambda: [Sample(value=1, labels=version)],
        ),
        counter("process_cpu_seconds_total", "Processor time of this process.", time.process_time),
        _of_proc("process_resident_memory_bytes", "Memory in use.", _resident_bytes),
        _of_proc("process_open_fds", "Open files and sockets.", _open_files),
        _of_proc("process_max_fds", "How many of them there may be.", _open_files_max),
        _of_proc("process_start_time_seconds", "When it began, since 1970.", _start_s),
    ]


def process_age_s() -> float | None:
    """How long ago this process was made, by the system's clock; None where it does not tell."""
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
    # One of them is the listing's own.
    return sum(1 for _ in (_PROC / "fd").iterdir()) - 1


def _open_files_max() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _start_s() -> float:
    # From the time of the boot, which the system tells in whole seconds: computed from the clock,
    # the answer would differ a little at each scrape, and look like a restart.
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    boot_s = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    return boot_s + _start_since_boot_s()


def _since_boot_s() -> float:
    return float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])


def _start_since_boot_s() -> float:
    # The name of the program comes second, in parentheses, and may contain anything.
    fields = (_PROC / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")
