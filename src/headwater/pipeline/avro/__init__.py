"""Avro in Spark's queries: columns of records to typed columns and back, with a schema registry.

What a reader would get wrong: values are not decoded one by one. All records of one schema are
walked at the same time, field by field, as arrays of positions (`walking`, `reading_nodes`).
"""
