"""What pytest leaves out where an extra is not installed: Flower has an environment of its own, see `make flower`."""

from importlib.util import find_spec

HELPERS = ["tests/flower/deployment.py", "tests/flower/simulation.py"]

collect_ignore_glob = [] if find_spec("flwr") else ["src/kfed/adapters/flower*.py", *HELPERS]
