"""Run the `headwater` command with `python -m headwater`."""

from headwater.cli.entry import main

if __name__ == "__main__":
    main()
