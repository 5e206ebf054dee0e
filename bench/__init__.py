"""Benchmarks: figures are compared with goals, and a missed goal fails the run."""
