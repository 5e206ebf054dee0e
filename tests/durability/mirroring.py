"""A mirror as a process of its own, without Spark, so that it starts fast and can be killed often.

python -m tests.durability.mirroring WEST EAST DELIVERY [--once]
"""

import sys

from headwater.pipeline.mirror.mirror import Mirror
from headwater.pipeline.mirror.mirror_options import mirror_options
from headwater.pipeline.mirror.slot_task import SlotTask, run_task
from headwater.pipeline.mirror.slots import Copied


def in_this_process(tasks: list[SlotTask]) -> list[Copied]:
    return [copied for task in tasks for copied in run_task(task)]


def main(source: str, target: str, delivery: str, *more: str) -> None:
    options = mirror_options(source, target, topics="tea-.*", delivery=delivery)
    Mirror(options, in_this_process).run(once="--once" in more)


if __name__ == "__main__":
    main(*sys.argv[1:])
