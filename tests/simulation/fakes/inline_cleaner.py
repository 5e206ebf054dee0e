"""A cleaner without a child process: `run` does what is given, `cancel` is recorded."""

from collections.abc import Callable

from headwater.storage.cleaner.cleaning_job import CleaningFailure, CleaningResult, FailureKind

RunCleaning = Callable[[], CleaningResult | CleaningFailure]


class InlineCleaner:
    """Cancelled before it runs, it does nothing; later, it completes anyway."""

    def __init__(self, run: RunCleaning) -> None:
        self._run = run
        self.is_cancelled = False
        self.io_limits: list[int] = []

    def run(self) -> CleaningResult | CleaningFailure:
        if self.is_cancelled:
            return CleaningFailure(FailureKind.CANCELLED, "cancelled before it began")
        return self._run()

    def cancel(self) -> None:
        self.is_cancelled = True

    def limit_io(self, bytes_per_second: int) -> None:
        self.io_limits.append(bytes_per_second)
