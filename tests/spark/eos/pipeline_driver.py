"""The command `headwater` with a sink that fails at chosen points."""

import headwater.spark.data_source
from headwater.cli.entry import main
from tests.spark.eos.faults import FaultySource

if __name__ == "__main__":
    # Sessions look it up by this name when they register their formats.
    setattr(headwater.spark.data_source, "HeadwaterSource", FaultySource)  # noqa: B010
    main()
