"""The exceptions of kfed: every error that a caller can cause is one of these.

::

    KFedError
    ├── InvalidInputError (ValueError)     an argument or a table is not what it must be
    │   ├── FeatureMismatchError           two parties do not speak of the same features
    │   ├── TooFewCentersError             more clusters asked for than device centers came
    │   ├── NoReliableKError               k was to be found, and the device centers do not show it
    │   └── DuplicateDeviceError           two different messages claim one device id
    ├── MessageError (ValueError)          bytes that are not a sound kfed file
    │   └── VersionError                   a kfed file of a version this kfed does not read
    ├── UnknownDeviceError (LookupError)   an aggregation was asked for a device it never met
    ├── OutputExistsError (OSError)        a file would be overwritten without leave
    ├── MissingDataError (OSError)         a data set is neither here nor could it be downloaded
    ├── CorruptFileError (ValueError)      a file of a data set is not the one that was published
    ├── MissingExtraError (ImportError)    an optional dependency is not installed
    ├── EngineError (RuntimeError)         a cluster or network that work was handed to went away
    └── DivergedError (ArithmeticError)    training came to a loss that is not a number

    AggregationWarning (UserWarning)       clusters were found, and should be looked at before they are relied upon

No text of an error holds a value of a data row: it names the row and the column.
"""

from __future__ import annotations


class KFedError(Exception):
    """Whatever kfed raises on purpose."""


class InvalidInputError(KFedError, ValueError):
    """An argument or a table is not what it must be."""


class FeatureMismatchError(InvalidInputError):
    """Two parties do not speak of the same features."""


class TooFewCentersError(InvalidInputError):
    """More clusters were asked for than device centers came."""


class NoReliableKError(InvalidInputError):
    """The number of clusters was to be found, and the device centers do not show it clearly."""


class DuplicateDeviceError(InvalidInputError):
    """Two different messages claim one device id."""


class MessageError(KFedError, ValueError):
    """Bytes that are not a sound kfed file."""


class VersionError(MessageError):
    """A kfed file of a version that this kfed does not read."""


class UnknownDeviceError(KFedError, LookupError):
    """An aggregation was asked for a device it never met."""


class OutputExistsError(KFedError, OSError):
    """A file would be overwritten without leave."""


class MissingDataError(KFedError, OSError):
    """A data set is neither on this machine nor could it be downloaded."""


class CorruptFileError(KFedError, ValueError):
    """A file of a data set is not the one that was published."""


class EngineError(KFedError, RuntimeError):
    """A cluster or network that work was handed to went away."""


class MissingExtraError(KFedError, ImportError):
    """An optional dependency is not installed."""


class DivergedError(KFedError, ArithmeticError):
    """Training came to a loss that is not a number."""


class AggregationWarning(UserWarning):
    """Clusters were found, and should be looked at before they are relied upon."""
