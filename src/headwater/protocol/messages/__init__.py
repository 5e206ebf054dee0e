"""Requests and responses, one module per API, with Kafka's names for every field.

A message class describes its newest version; `schema` fields say which versions have them.
Versions that differ in more than fields have a class of their own (`...UpToV3`).
"""
