"""Partitions whose folders are made in the background."""

import random
from pathlib import PurePath

from tests.sim.broker_lab import START_MS, BrokerLab
from tests.sim.cruel_disk import CruelDisk


class SlowDisk(CruelDisk):
    """It takes three milliseconds to make a folder."""

    def __init__(self) -> None:
        super().__init__(random.Random(1), now_ms=lambda: START_MS)
        self.lab: BrokerLab | None = None

    def make_directory(self, path: PurePath) -> None:
        super().make_directory(path)
        if self.lab is not None:
            self.lab.clock.move(3)


def test_new_partitions_take_their_time_from_the_broker_in_small_pieces() -> None:
    disk = SlowDisk()
    lab = BrokerLab(disk=disk)
    disk.lab = lab
    lab.create("t", 7)
    partitions = lab.broker.partitions

    def opened() -> int:
        return sum(each.log is not None for each in partitions)

    counts = []
    while opened() < 7:
        partitions.open_some(5)
        counts.append(opened())
    assert counts == [2, 4, 6, 7]
