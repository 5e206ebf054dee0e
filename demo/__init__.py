"""Demo of a tea shop: orders and payments, joined and aggregated by Spark, exactly once."""
