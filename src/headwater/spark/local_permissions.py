"""Set permissions of local checkpoint files without child processes.

Hadoop creates each local file twice, as the file and its checksum, and without its native library
runs `chmod` for each of them. A micro-batch writes at least two files, so that it waits for four
child processes: about a fifth of the time of a small batch. Java can set permissions itself.

Note: Hadoop has no setting for it. Spark's own compiler of generated code (Janino) compiles a
subclass of Hadoop's local file system, which replaces the original one in the instance that Hadoop
caches for `file:`. If anything of this is missing in a version of Spark or Hadoop, nothing is
replaced, and child processes are started as before.
"""

import importlib
import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

CLASS: Final = "HeadwaterLocalFileSystem"
_SOURCE: Final = """
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

public class HeadwaterLocalFileSystem extends org.apache.hadoop.fs.RawLocalFileSystem {
    public void setPermission(Path path, FsPermission permission) throws IOException {
        if (permission.getStickyBit()) {
            super.setPermission(path, permission);
            return;
        }
        String text = permission.getUserAction().SYMBOL
            + permission.getGroupAction().SYMBOL
            + permission.getOtherAction().SYMBOL;
        try {
            Files.setPosixFilePermissions(
                pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
        } catch (UnsupportedOperationException e) {
            super.setPermission(path, permission);
        }
    }
}
"""


def set_permissions_in_java(spark: "SparkSession") -> bool:
    """Replace the file system of local paths; return whether it is replaced."""
    # Imported here because PySpark is not installed everywhere; py4j has no type hints.
    py4j_error: type[Exception] = importlib.import_module("py4j.protocol").Py4JError
    try:
        return _replace(spark)
    # Another version of Hadoop or Janino: a missing class is a TypeError of py4j.
    except (py4j_error, TypeError) as error:
        _log.debug("Permissions of local files are set by child processes: error=%s", error)
        return False


def _replace(spark: "SparkSession") -> bool:
    context = spark.sparkContext
    jvm: Any = context._jvm
    new_array: Any = context._gateway.new_array  # type: ignore[union-attr]
    if jvm.org.apache.hadoop.io.nativeio.NativeIO.isAvailable():
        return False
    conf = context._jsc.hadoopConfiguration()
    place = jvm.java.net.URI.create("file:///")
    local = jvm.org.apache.hadoop.fs.FileSystem.get(place, conf)
    former = local.getRaw().getClass().getName()
    if former != "org.apache.hadoop.fs.RawLocalFileSystem":
        # Replaced already, by a session before this one in the same JVM, or configured by a user.
        return bool(former == CLASS)
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(local.getClass().getClassLoader())
    compiler.cook(_SOURCE)
    compiled = compiler.getClassLoader().loadClass(CLASS)
    constructor = compiled.getDeclaredConstructor(new_array(jvm.java.lang.Class, 0))
    raw = constructor.newInstance(new_array(jvm.java.lang.Object, 0))
    raw.initialize(place, conf)
    field = jvm.java.lang.Class.forName("org.apache.hadoop.fs.FilterFileSystem").getDeclaredField(
        "fs"
    )
    field.setAccessible(True)
    field.set(local, raw)
    return True
