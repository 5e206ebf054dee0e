"""The asyncio clients: as in `headwater.client`, but on the caller's event loop."""

from headwater.client.admin.aio_admin import Admin
from headwater.client.consumer.aio_consumer import Consumer
from headwater.client.producer.aio_producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
