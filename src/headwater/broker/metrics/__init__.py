"""Metrics under Kafka's names, as Prometheus text over HTTP.

Start with `broker_metrics`; `metrics_listener` serves `/metrics` and `/healthz`.
"""
