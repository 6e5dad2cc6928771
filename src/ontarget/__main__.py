"""Runs the command line, so that ``python -m ontarget`` does the same as ``ontarget``."""

from ontarget.cli import main

if __name__ == "__main__":
    main()
