"""`python -m scaler`: the same as the `scaler` command."""

import sys

from scaler.cli import main

if __name__ == "__main__":
    sys.exit(main())
