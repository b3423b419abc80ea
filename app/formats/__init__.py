"""The formats that the service reads and writes, as JSON Schemas."""
