"""Verification records as they are stored: canonical JSON under zstd, since answers repeat each other."""

import zstandard

from app.domain.canonical import canonical_model
from app.domain.verified import VerificationRecord


def pack_verification(record: VerificationRecord) -> bytes:
    """The stored form."""
    return zstandard.ZstdCompressor().compress(canonical_model(record))


def unpack_verification(document: bytes) -> VerificationRecord:
    """The record that was stored."""
    return VerificationRecord.model_validate_json(zstandard.ZstdDecompressor().decompress(document))
