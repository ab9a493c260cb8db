"""python -m tocha: the same as the command `tocha`."""

import sys

from tocha._alias.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
