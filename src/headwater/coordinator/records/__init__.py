"""The records of the coordinators' internal topics, as values and as Kafka's bytes."""
