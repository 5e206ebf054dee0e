"""A schema registry: the HTTP interface and the topic `_schemas` of Confluent's, for Avro."""
