"""`python -m headwater` is the `headwater` command."""

from headwater.cli.entry import main

if __name__ == "__main__":
    main()
