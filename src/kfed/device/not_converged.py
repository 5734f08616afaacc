"""`NotConvergedWarning`, in a module of its own, since its base class takes scikit-learn to import."""

from sklearn.exceptions import ConvergenceWarning

from kfed.errors import DeviceWarning


class NotConvergedWarning(DeviceWarning, ConvergenceWarning):  # type: ignore[misc]  # scikit-learn has no types
    """Clustering stopped before it converged. It is scikit-learn's warning of it, too, for whoever filters that."""
