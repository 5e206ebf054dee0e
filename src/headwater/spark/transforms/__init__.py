"""Kafka Connect's single message transforms, on columns of records.

Start with `transform_config`, which reads and checks settings without Spark; `transform_chain`
applies them to a DataFrame of records, and the other modules have the transforms.
"""
