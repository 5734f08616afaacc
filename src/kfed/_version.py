"""The version of kfed; everything that states it reads it here."""

__version__ = "0.2.0"
