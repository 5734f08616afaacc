"""What pytest leaves out where an extra is not installed: Flower has an environment of its own, see `make flower`."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("flwr") else ["src/kfed/adapters/flower*.py", "tests/flower/deployment.py"]
