"""`python -m kboot` and the `kboot` script: hand the command line to the CLI."""

from kboot.host.early import end_on_signals


def main() -> None:
    """Run the command line of this process and exit with its status."""
    end_on_signals()  # before anything is loaded that takes time
    from kboot.cli import main as run

    run()


if __name__ == "__main__":
    main()
