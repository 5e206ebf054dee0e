"""Producer id and epoch, in a small module because all commands import it."""

from typing import Final, NamedTuple

from headwater.common.ids import NO_EPOCH, NO_PRODUCER


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int = NO_PRODUCER
    epoch: int = NO_EPOCH

    @property
    def is_known(self) -> bool:
        return self.producer_id != NO_PRODUCER


NO_IDENTITY: Final = ProducerIdAndEpoch()
