"""What both ends of the line call things."""

SECRET_HEADER = "kfed-device-secret"
"""Carries the secret that a device made up."""

BYTES = "application/octet-stream"
"""The media type of messages and identities."""
