"""`python -m kboot` and the `kboot` script: hand the command line to the CLI."""

from kboot.cli import main

if __name__ == "__main__":
    main()
