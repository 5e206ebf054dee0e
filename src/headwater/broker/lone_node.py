"""A broker that is alone: it keeps the cluster's facts itself, and decides everything."""

import asyncio
import logging
from functools import partial

from headwater.broker.alone import Alone
from headwater.broker.node import Node, fresh_cluster_id, known_cluster_id
from headwater.broker.standing import Standing
from headwater.cluster import local
from headwater.cluster.adoption import adopt
from headwater.cluster.controller import Controller
from headwater.cluster.facts import Fact
from headwater.cluster.features import of_new_cluster
from headwater.cluster.image import ClusterImage, Version
from headwater.cluster.leadership import renew_leaderships
from headwater.cluster.local import LocalStore
from headwater.cluster.store import Registration
from headwater.model.failures import HeadwaterError
from headwater.storage.folder_survey import survey

_log = logging.getLogger(__name__)


class LoneNode(Node):
    """See the module."""

    async def _open_store(self) -> ClusterImage:
        known_id = known_cluster_id(self._disk, self._paths)
        known_id = known_id or LocalStore.cluster_id_in(self._disk, self._paths[0])
        self.cluster_id = known_id or fresh_cluster_id(self._dice)
        self._store = LocalStore.open(
            self._disk,
            self._executor,
            self._paths[0],
            cluster_id=self.cluster_id,
            first=[*of_new_cluster(), *self._adopted()],
        )
        return await self._read_image()

    def _new_standing(self) -> Standing:
        empty = ClusterImage(cluster_id=self.cluster_id)
        self._controller = Controller(self._store, empty, self._changed)
        return Alone(self._static, self._controller, self._dice)

    async def _join(self, registration: Registration) -> None:
        registered: asyncio.Future[int] = self._loop.create_future()
        self._store.register(
            registration, then=registered.set_result, otherwise=registered.set_exception
        )
        await registered
        elected: asyncio.Future[Version] = self._loop.create_future()
        self._store.become_controller(
            self._static.node_id, then=elected.set_result, otherwise=elected.set_exception
        )
        await elected
        image = await self._read_image()
        self._controller.take_over(image)
        self._partitions.changed(image, ())
        self._take_up_duties(image)
        if not all(each.was_clean for each in self._directories.serving()):
            await self._renew_leaderships()
        self._coordinators.groups.changed(self._controller.image, ())
        self._coordinators.transactions.changed(self._controller.image)
        self.dispatch.announce(self._controller.image)
        self._keep_house()

    async def _become_informed(self) -> None:
        """There is nobody who could know more."""

    def _broker_epoch(self) -> int:
        return self.broker.image.brokers[self._static.node_id].epoch

    async def _close_store(self) -> None:
        self._store.close()

    async def _take_leave(self) -> None:
        """There is nobody to hand anything over to."""

    def _replicas(self) -> None:
        return None

    def _colleagues_or_none(self) -> None:
        return None

    def _brokers_listener(self) -> None:
        return None

    def _directory_failed(self) -> None:
        """Nobody else could serve what was on it."""

    def _tick(self) -> None:
        """Everything that goes by the clock is what all brokers do."""

    def _store_failure(self) -> HeadwaterError | None:
        return self._store.failure

    def _adopted(self) -> list[Fact]:
        """What a first start makes of logs that are there already."""
        if self._disk.status(self._paths[0] / local.FILE_NAME) is not None:
            return []
        empty = ClusterImage(cluster_id=self.cluster_id, is_standalone=True)
        found = survey(self._disk, self._paths)
        if found:
            _log.warning(
                "%d partitions of another cluster are taken over; their topics keep everything "
                "until retention is set for them",
                len(found),
            )
        return adopt(empty, found, self._static.settings, self._dice)

    async def _renew_leaderships(self) -> None:
        renewed: asyncio.Future[None] = self._loop.create_future()
        self._controller.submit(
            partial(renew_leaderships, node_id=self._static.node_id),
            then=renewed.set_result,
            otherwise=renewed.set_exception,
        )
        await renewed

    async def _read_image(self) -> ClusterImage:
        found: asyncio.Future[ClusterImage] = self._loop.create_future()
        self._store.read(then=found.set_result, otherwise=found.set_exception)
        return await found
