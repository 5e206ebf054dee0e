"""Child processes, signals, and the programs Java and ZooKeeper.

Start with `die_with_parent`, which ends a child when its parent ends. `java` finds the runtime for
Spark and ZooKeeper, `zookeeper_server` runs a ZooKeeper for laptops and tests.
"""
