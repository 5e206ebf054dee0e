"""Settings with Kafka's names: broker, topic, group, listener, SASL, SSL.

Also reads properties files.

Start with `broker_settings` and `topic_settings`; `setting_types` parses and formats values.
`topic_synonyms` lists the broker settings that topics inherit.
"""
