"""``python -m kfed``: the command line, where the command itself is not on the path."""

from kfed.cli import main

main()
