"""Requests of brokers and controllers to the active controller of a KRaft cluster."""
