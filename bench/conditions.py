"""Conditions of a measurement, without which figures cannot be compared.

Every part may be unavailable on some machine; it is then reported as unknown and never stops a
benchmark.
"""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import headwater
from headwater.records import kernel

UNKNOWN = "unknown"


def present_conditions() -> dict[str, object]:
    """Return machine, versions and time in a form suitable for JSON."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "headwater": headwater.__version__,
        "commit": _commit(),
        "record_kernel": _record_kernel(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return UNKNOWN
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _commit() -> str:
    """Return the short commit hash, marked if the working tree has changes."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN
    return described.stdout.strip()


def _record_kernel() -> str:
    return "compiled" if kernel.IS_COMPILED else "pure"
