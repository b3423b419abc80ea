"""All cases in the order in which they are run, and the public reports that no case here can look for."""

from collections.abc import Sequence

from app.domain.errors import DomainError
from worker.regression import choosing, endings, grammars, probabilities, sharing, streams
from worker.regression.case import Case

CASES: tuple[Case, ...] = (
    *choosing.CASES,
    *endings.CASES,
    *probabilities.CASES,
    *grammars.CASES,
    *streams.CASES,
    *sharing.CASES,
    streams.KILLED,
    *sharing.VOCABULARIES,
)

OUT_OF_REACH: tuple[tuple[tuple[str, ...], str], ...] = (
    (("vllm-project/vllm#39273", "vllm-project/vllm#53912", "vllm-project/vllm#43559"),
     "hybrid models (GDN) with prefix cache or MTP: no small hybrid model, and no such kernels on the processor"),
    (("vllm-project/vllm#40875", "vllm-project/vllm#56077"),
     "ngram with tool parsers: a parser reads the text of its own model family, which the bundled models do not write"),
    (("vllm-project/vllm#46669",), "speculation with async scheduling: runner V1 has it off for ngram and suffix"),
    (("vllm-project/vllm#52071",), "pipeline parallelism: needs several accelerators"),
    (("vllm-project/vllm#54506",), "numerics of a step of k + 1 rows beside one of 1 row: a matter of GPU kernels"),
    (("vllm-project/vllm#37150",), "acceptance of ngram_gpu: it needs a GPU"),
    (("vllm-project/speculators#1095",), "counters under data parallelism: needs several accelerators"),
    (("vllm-project/vllm#42508",), "acceptance beside a trainer's own figure: needs a trained head"),
    (("vllm-project/vllm#52873",), "acceptance after 32,768 tokens: no small model is that long"),
)  # fmt: skip
"""Public reports, and why ``not applicable`` is all that can be said of them here."""


def cases_named(names: Sequence[str]) -> tuple[Case, ...]:
    """The cases of those names in the suite's order; without names, all. Raises ``DomainError`` for a strange one."""
    known = {case.name for case in CASES}
    strange = [name for name in names if name not in known]
    if strange:
        message = f"there is no case {', '.join(strange)}"
        raise DomainError.of("case", message, f"one of: {', '.join(case.name for case in CASES)}")
    return tuple(case for case in CASES if not names or case.name in names)
