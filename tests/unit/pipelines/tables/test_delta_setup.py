"""Which Spark has Delta, and what it is told."""

from headwater.pipelines.tables.delta_setup import delta_conf, why_no_delta

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def test_delta_is_refused_where_it_is_known_to_fail() -> None:
    assert why_no_delta("4.2.1") is None
    assert why_no_delta("4.3.0") == (
        "delta needs PySpark 4.2, and 4.3.0 is installed: pip install 'pyspark==4.2.*'"
    )


def test_settings_of_the_user_are_kept() -> None:
    own = {"spark.jars.packages": "org.example:format:1", "spark.sql.extensions": "a.B"}
    assert delta_conf(own, "4.2.1") == {
        "spark.jars.packages": f"org.example:format:1,{PACKAGE}",
        "spark.sql.extensions": f"a.B,{EXTENSION}",
        "spark.sql.catalog.spark_catalog": CATALOG,
        "spark.databricks.delta.snapshotPartitions": "4",
    }
    many = {"spark.databricks.delta.snapshotPartitions": "200"}
    assert delta_conf(many, "4.2.1").items() >= many.items()


def test_jars_of_delta_that_the_user_brings_are_not_fetched() -> None:
    own = {"spark.jars": "/opt/delta-spark_4.2_2.13-4.4.0.jar"}
    assert "spark.jars.packages" not in delta_conf(own, "4.2.1")
