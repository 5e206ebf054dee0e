"""The cluster's facts in ZooKeeper, in the layout of Kafka 3.x."""
