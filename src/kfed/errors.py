"""The exceptions of kfed: every error that a caller can cause is one of these.

::

    KFedError
    ├── InvalidInputError (ValueError)     an argument or a table is not what it must be
    │   ├── FeatureMismatchError           two parties have different features
    │   ├── TooFewCentersError             more clusters asked for than device centers came
    │   ├── NoReliableKError               the device centers do not show how many clusters there are
    │   └── DuplicateDeviceError           two different messages claim one device id
    ├── MessageError (ValueError)          bytes that are not a valid kfed file
    │   └── VersionError                   a kfed file of a version this kfed does not read
    ├── UnknownDeviceError (LookupError)   a device that was not aggregated was asked for
    ├── OutputExistsError (OSError)        the file exists; pass --force to overwrite it
    ├── MissingDataError (OSError)         a data set is not here and could not be downloaded
    ├── CorruptFileError (ValueError)      a file of a data set is not the one that was published
    ├── MissingExtraError (ImportError)    an optional dependency is not installed
    ├── EngineError (RuntimeError)         a cluster of workers or a network went away
    └── DivergedError (ArithmeticError)    the training loss is not a number

    Defined where they are raised:
    KFedError
    ├── InvalidInputError
    │   ├── device.summary.TooManyBytesError         a message cannot be as small as `max_bytes`
    │   ├── device.moments.UntoldValuesError         `moments` would reveal values that are withheld
    │   └── adapters._platform_note.RefusedError     a site of a platform does not do what a task asks for
    ├── coordinator.client.CoordinatorError          a coordinator refused a request, or could not be reached
    └── coordinator.problems.ProblemError            a coordinator refuses a request with this HTTP status
        ├── StoreUnavailableError                    the database cannot be used right now; try again
        └── DamagedMessagesError                     messages in the store cannot be read

    KFedWarning (UserWarning)              something that is not an error needs a look; `code` says what
    ├── AggregationWarning                 the clusters need a look before anyone relies on them
    ├── DeviceWarning                      the points of a device, or its clusters, need a look
    │   └── NotConvergedWarning            it was cut short; scikit-learn's, too, if that is imported
    ├── PrivacyWarning                     a private message gives weaker privacy, or less information, than set
    ├── TableWarning                       a table of a site, or of new rows, needs a look
    └── adapters.PartitionWarning          rows were moved between partitions, or devices were left out

No text of an error holds a value of a data row: it names the row and the column.
"""

from __future__ import annotations


class KFedError(Exception):
    """Base of all errors that kfed raises on purpose."""


class InvalidInputError(KFedError, ValueError):
    """An argument or a table is not what it must be."""


class FeatureMismatchError(InvalidInputError):
    """Two parties have different features."""


class TooFewCentersError(InvalidInputError):
    """More clusters were asked for than device centers came."""


class NoReliableKError(InvalidInputError):
    """The device centers do not show clearly how many clusters there are."""


class DuplicateDeviceError(InvalidInputError):
    """Two different messages claim one device id."""


class MessageError(KFedError, ValueError):
    """Bytes that are not a valid kfed file."""


class VersionError(MessageError):
    """A kfed file of a version that this kfed does not read."""


class UnknownDeviceError(KFedError, LookupError):
    """A device that was not aggregated was asked for."""


class OutputExistsError(KFedError, OSError):
    """A file exists already, and overwriting was not asked for."""


class MissingDataError(KFedError, OSError):
    """A data set is not on this machine and could not be downloaded."""


class CorruptFileError(KFedError, ValueError):
    """A file of a data set is not the one that was published."""


class EngineError(KFedError, RuntimeError):
    """A cluster of workers or a network went away."""


class MissingExtraError(KFedError, ImportError):
    """An optional dependency is not installed."""


class DivergedError(KFedError, ArithmeticError):
    """The training loss is not a number."""


class KFedWarning(UserWarning):
    """Something that is not an error, but needs a look; `code` says what, for programs."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class AggregationWarning(KFedWarning):
    """The clusters need a look before anyone relies on them."""


class DeviceWarning(KFedWarning):
    """The points of a device, or what was found in them, need a look."""


class PrivacyWarning(KFedWarning):
    """A private message gives weaker privacy, or less information, than its settings suggest."""


class TableWarning(KFedWarning):
    """A table of a site, or of new rows, needs a look."""
