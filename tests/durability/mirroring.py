"""Mirror in its own process without Spark, so that it starts fast and can be killed often.

python -m tests.durability.mirroring WEST EAST DELIVERY [--once]
"""

import sys

from headwater.mirror.copy_task import CopyTask, run_task
from headwater.mirror.mirror import Mirror
from headwater.mirror.mirror_options import mirror_options
from headwater.mirror.task_assignment import Copied


def in_this_process(tasks: list[CopyTask]) -> list[Copied]:
    return [copied for task in tasks for copied in run_task(task)]


def main(source: str, target: str, delivery: str, *more: str) -> None:
    options = mirror_options(source, target, topics="tea-.*", delivery=delivery)
    Mirror(options, in_this_process).run(once="--once" in more)


if __name__ == "__main__":
    main(*sys.argv[1:])
