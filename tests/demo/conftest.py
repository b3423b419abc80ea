import pytest
from tokenizers import Tokenizer

from app.demo.workloads import build_traces, demo_loads
from app.domain.trace import Trace
from app.settings import PROJECT_ROOT

TOKENIZER = PROJECT_ROOT / "models/tiny-target/tokenizer.json"


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(TOKENIZER))


@pytest.fixture(scope="session")
def traces(tokenizer: Tokenizer) -> tuple[Trace, ...]:
    return build_traces(tokenizer, demo_loads(5.0, 14.0))
