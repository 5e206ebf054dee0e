"""`make demo`: a tea shop's orders and payments, joined and counted by Spark, exactly once."""
