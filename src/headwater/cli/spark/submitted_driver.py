"""The program that `spark-submit` runs for `headwater pipeline submit`."""

from headwater.cli.entry import main

if __name__ == "__main__":
    main()
