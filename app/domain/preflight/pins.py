"""Are the pinned files the files that are here, and was the draft made for this target?"""

import re

from app.domain.preflight.case import ArmCase, Case, missing_draft
from app.domain.preflight.methods import READS_HIDDEN_STATES
from app.domain.preflight.outcome import Check, Topic

ABSENT = "none"
_REVISION = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")


def files(case: Case, topic: Topic) -> Check:
    """Tokenizer, chat template and generation configuration have the stated hashes."""
    stated = case.manifest.files
    if stated is None:
        return topic.passes("no hashes are stated; the references pin the files by their content")
    if case.target is None or case.tokenizer is None:
        return topic.cannot_say("the target's files were not read")
    for name, said, found in (
        ("tokenizer", stated.tokenizer, case.tokenizer.tokenizer_sha256),
        ("chat_template", stated.chat_template, case.tokenizer.chat_template_sha256),
        ("generation_config", stated.generation_config, case.target.generation_config_sha256),
    ):
        if said != (found or ABSENT):
            reason = f"the manifest says {said}, the file is {found or ABSENT}"
            return topic.at(f"files.{name}").fails(reason, "restore the file, or pin what is here")
    return topic.passes("all three have the stated hashes")


def draft_revision(arm: ArmCase, topic: Topic) -> Check | None:
    """The draft's recorded target revision is this target; only a head depends on it."""
    if not arm.has_draft:
        return None
    recorded = _recorded(arm)
    if recorded is None:
        return missing_draft(arm, topic) or topic.cannot_say("nothing records which target the draft was made for")
    target = arm.case.manifest.target_model
    revision = _REVISION.search(recorded)
    if revision is None:
        return topic.cannot_say(f"made for {recorded}, of which no revision is recorded")
    if revision[0] in target:
        return topic.passes(f"made for {target}")
    if arm.arm.speculation.method in READS_HIDDEN_STATES:
        return topic.fails(f"made for {recorded}, not for {target}", "use a head that was trained on this revision")
    return topic.passes(f"made for {recorded}; a model of its own drafts for any target with its vocabulary")


def _recorded(arm: ArmCase) -> str | None:
    """What the manifest says, else what the draft's card says."""
    stated = arm.arm.provenance
    if stated is not None and stated.target_revision:
        return stated.target_revision
    return None if arm.draft is None else arm.draft.provenance.get("target_revision")
