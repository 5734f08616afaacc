"""Names that client and server share."""

SECRET_HEADER = "kfed-device-secret"
"""The header that carries a device secret."""

BYTES = "application/octet-stream"
"""The media type of messages and identities."""
