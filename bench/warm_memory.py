"""Reuse memory that the machine has used before, so that a run does not pay for fresh pages.

Note: this is not about CPU caches. A virtual machine returns unused memory to its host, and gets it
back page by page when it is touched, which costs more than receiving, checking and writing the data
in it. Faster contenders touch more fresh pages, so without this a comparison measures which one
runs on used memory.
"""

import os
from collections.abc import Callable
from pathlib import Path

_PIECE_BYTES = 1_048_576


def on_warm_memory(
    run: Callable[[], float], directory: Path, size_bytes: int
) -> Callable[[], float]:
    """Return a run that first writes and removes a file of that size."""

    def warmed() -> float:
        _use_memory(directory / "warm", size_bytes)
        return run()

    return warmed


def _use_memory(path: Path, size_bytes: int) -> None:
    piece = os.urandom(_PIECE_BYTES)
    with path.open("wb", buffering=0) as file:
        for _ in range(-(-size_bytes // _PIECE_BYTES)):
            file.write(piece)
    path.unlink()
