"""Every format that can be read, by name."""

from app.domain.errors import DomainError
from app.workloads.readers import (
    azure,
    burstgpt,
    evalscope,
    mooncake,
    openai_requests,
    sharegpt,
    spec_bench,
    speed_bench,
    speed_bench_parquet,
    verdraft,
    vllm_custom,
)
from app.workloads.readers.format import Format

_MODULES = (
    azure, burstgpt, evalscope, mooncake, openai_requests, sharegpt, spec_bench, speed_bench, speed_bench_parquet,
    verdraft, vllm_custom,
)  # fmt: skip

FORMATS: dict[str, Format] = {module.FORMAT.name: module.FORMAT for module in _MODULES}


def format_named(name: str) -> Format:
    """The format of that name; raises ``DomainError`` listing all names."""
    if name not in FORMATS:
        raise DomainError.of("format", f"there is no format {name[:40]!r}", f"give one of {', '.join(FORMATS)}")
    return FORMATS[name]
