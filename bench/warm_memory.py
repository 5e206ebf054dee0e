"""Memory that the machine has used before, so that a run does not pay for fresh pages.

What a reader would get wrong: this is not about cold caches of a processor. A virtual machine gives
memory that nobody uses back to its host, and gets it again page by page when it is touched, which
costs more than to receive, to check and to write what goes into it. Whoever writes faster meets
more of it, so without this a contest measures who runs on used memory.
"""

import os
from collections.abc import Callable
from pathlib import Path

_PIECE_BYTES = 1_048_576


def on_warm_memory(
    run: Callable[[], float], directory: Path, size_bytes: int
) -> Callable[[], float]:
    """The run, behind a file of that size that was written and removed just before it."""

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
