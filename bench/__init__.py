"""Benchmarks that judge: each figure is set against a goal, and a missed goal fails the run."""
