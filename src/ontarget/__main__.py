"""The command line as ``python -m ontarget``."""

from ontarget.cli import main

if __name__ == "__main__":
    main()
