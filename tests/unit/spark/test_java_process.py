"""Logging of the driver's JVM."""

from pathlib import Path

from headwater.spark.java_process import LOG_LEVEL, logging_option


def test_a_log_level_holds_from_the_start_unless_a_file_configures_logging(
    tmp_path: Path,
) -> None:
    conf = {LOG_LEVEL: "ERROR"}
    option = logging_option(conf, {})
    assert option is not None
    text = Path(option.partition("file:")[2]).read_text()
    assert "rootLogger.level = error\n" in text
    assert "%d{yy/MM/dd HH:mm:ss}" in text
    assert logging_option({}, {}) is None
    assert logging_option({**conf, "spark.driver.extraJavaOptions": "-Da=b"}, {}) is None
    (tmp_path / "log4j2.properties").write_text("")
    assert logging_option(conf, {"SPARK_CONF_DIR": str(tmp_path)}) is None
