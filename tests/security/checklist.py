"""The threats that the service is held against, each with the tests that show what happens; or why there is none."""

from dataclasses import dataclass

REFUSAL = "tests/domain/test_manifest_refusals.py::test_a_refusal_names_the_field_the_reason_and_the_remedy"
ACCESS = "tests/access/test_credentials.py::"
LOGIN = "tests/access/test_login.py::"
EDGE = "tests/api/test_boundary.py::"
HERE = "tests/security/"


@dataclass(frozen=True)
class Item:
    """``tests`` are ``path::function``, with a case of the refusals in brackets; ``left`` is what no test shows yet."""

    number: int
    attack: str
    answer: str
    tests: tuple[str, ...] = ()
    left: str = ""


def refused(*cases: str) -> tuple[str, ...]:
    """Manifests that are refused, by the name of their case."""
    return tuple(f"{REFUSAL}[{case}]" for case in cases)


PLAIN_MANIFEST = "tests/api/test_manifest_refusals.py::test_python_api_and_command_agree"

ITEMS = (
    Item(1, "an unknown key in a manifest or among engine arguments", "422 that names it",
         (*refused("unknown key", "unknown key of an arm", "unknown key of speculation"), PLAIN_MANIFEST)),
    Item(2, "an engine argument that loads code, listens elsewhere or opens files", "422",
         refused("middleware", "worker class", "tool parser plugin", "API key", "host", "port", "socket",
                 "LoRA modules", "traces endpoint", "any other engine argument")),
    Item(3, "a value like an option, a line break, NUL", "422; no shell anywhere",
         (*refused("value like an option", "line break", "name like an option"),
          "tests/api/test_manifest_refusals.py::test_a_nul_is_refused_before_the_manifest_is_read")),
    Item(4, "trust_remote_code", "422: never run, for nobody", refused("remote code")),
    Item(5, "a model that is a path, an address or a dotted name", "422",
         refused("traversal", "path", "home", "file address", "bucket address", "web address", "dotted target")),
    Item(6, "a revision that can move", "422", refused("branch", "short commit", "no revision", "tag of a draft")),
    Item(7, "custom_class, a missing or unknown method, a dotted draft, lossy sampling", "422",
         refused("custom class", "no method", "unknown method", "dotted draft", "synthetic", "fly")),
    Item(8, "environment variables for the engine", "422; its environment is built from nothing",
         (*refused("environment", "variable"),
          "tests/domain/test_launch.py::test_nothing_is_inherited_and_every_cache_is_private")),
    Item(9, "a chat template that loops or reaches out", "422: only a model's own, by digest, at most 64 KiB",
         (*refused("chat template"),
          "tests/worker/test_models_tokenizers.py::test_a_template_of_more_than_64_kib_is_no_fact"),
         left="rendering a model's own template within limits of time and memory"),
    Item(10, "a chat template in a request", "422",
         ("tests/domain/test_trace_request.py::test_what_is_refused_is_told_by_line_and_field",)),
    Item(11, "addresses that lead inside: import by URL, webhooks", "nothing is imported by URL; webhooks are refused",
         ("tests/api/test_webhooks.py::test_addresses_that_are_not_public_are_refused",
          "tests/api/test_webhooks.py::test_a_name_that_resolves_to_a_private_address_is_not_connected_to")),
    Item(12, "images and sound in prompts", "422: only text",
         ("tests/domain/test_trace_request.py::test_media_are_refused_in_words",)),
    Item(13, "a file name that is a path", "only a word of it is kept, as text",
         ("tests/workloads/test_uploading.py::test_a_file_name_is_only_a_word",)),
    Item(14, "a body beyond the limit, declared or not", "413 before it is buffered",
         (f"{EDGE}test_a_declared_length_over_the_limit_is_refused",
          f"{EDGE}test_an_undeclared_body_is_cut_off_at_the_limit")),
    Item(15, "a compressed bomb", "413 while it unpacks; compressed bodies of other types 415",
         ("tests/evidence/test_packing.py::test_a_bomb_is_stopped_while_it_unpacks",
          f"{EDGE}test_other_media_types_and_encodings_are_refused")),
    Item(16, "deep, huge, doubled or impossible JSON", "422",
         (f"{EDGE}test_a_malformed_document_is_refused_in_words",)),
    Item(17, "an experiment that never ends", "422 with the bound; 429 beyond the project's quota",
         (*refused("absurd rate", "absurd k", "absurd blocks", "absurd arms", "absurd answers",
                   "absurd number of runs"),
          "tests/access/test_quotas.py::test_a_project_may_not_queue_without_end")),
    Item(18, "markup in names, prompts and answers", "escaped; no inline script is allowed",
         (
          "tests/browser/test_canaries.py::test_what_engines_hosts_and_people_say_is_only_text",
          "tests/pages/test_mismatches.py::test_the_page_tells_everything_and_escapes_what_a_model_said",
          f"{EDGE}test_every_answer_carries_the_security_headers")),
    Item(19, "cells that a spreadsheet would compute", "an apostrophe before them",
         ("tests/interop/test_csv.py::test_no_text_is_a_formula",)),
    Item(20, "control characters in logs and answers", "stripped",
         ("tests/api/test_measured.py::test_a_log_is_plain_text_without_control_characters",
          "tests/pages/test_operations.py::test_words_of_others_are_escaped_and_their_control_characters_gone")),
    Item(21, "SQL in filters and orders", "422 for an unknown one; values are parameters",
         ("tests/api/test_listing.py::test_a_search_that_is_not_understood_is_refused",
          "tests/api/test_contract.py::test_answers_keep_the_contract")),
    Item(22, "a token that is guessed, stolen, old or too weak",
         "256 bits, kept as SHA-256, compared in constant time; 401; 403 for a small scope; revoked at once",
         (f"{ACCESS}test_a_token_is_shown_once_and_kept_as_a_digest",
          f"{ACCESS}test_what_is_no_token_is_refused_in_one_shape",
          f"{ACCESS}test_another_secret_under_a_known_id_is_refused",
          f"{ACCESS}test_a_revoked_token_is_refused_from_the_next_request_on",
          "tests/access/test_streams.py::test_a_revoked_token_is_told_nothing_more",
          f"{ACCESS}test_an_expired_token_is_refused",
          f"{ACCESS}test_a_read_token_changes_nothing",
          f"{ACCESS}test_nobody_is_let_in_without_a_credential",
          f"{ACCESS}test_every_route_declares_its_scope")),
    Item(23, "a token in an address or a log", "400; never logged",
         (f"{ACCESS}test_a_token_in_the_address_is_refused", f"{ACCESS}test_no_log_has_a_token_or_a_password")),
    Item(24, "another site that uses a person's login", "403; the API reads no cookies but of our own pages' GET",
         (f"{LOGIN}test_a_form_of_another_site_is_refused", f"{LOGIN}test_a_form_needs_the_token_of_this_very_login",
          f"{LOGIN}test_the_api_reads_no_cookie_from_elsewhere", f"{LOGIN}test_the_api_changes_nothing_for_a_cookie",
          f"{LOGIN}test_the_cookie_is_out_of_reach_of_scripts_and_other_sites",
          f"{LOGIN}test_behind_tls_the_cookie_is_secure")),
    Item(25, "another project's ids", "404, as for what does not exist, on every route",
         ("tests/access/test_projects.py::test_no_address_of_another_project_leads_anywhere",
          "tests/access/test_projects.py::test_nothing_of_another_project_can_be_changed",
          "tests/access/test_projects.py::test_no_list_tells_of_another_project",
          "tests/access/test_projects.py::test_what_does_not_exist_and_what_is_not_theirs_are_told_alike")),
    Item(26, "too many submissions, attempts to log in, streams", "429 with Retry-After",
         (f"{ACCESS}test_too_many_submissions_are_told_when_to_come_again", f"{LOGIN}test_too_many_attempts_wait",
          "tests/access/test_streams.py::test_one_client_cannot_take_every_stream",
          "tests/api/test_measured.py::test_streams_are_few_and_given_back")),
    Item(27, "a request sent twice", "done once; 409 for another body under the same key",
         ("tests/api/test_idempotency.py::test_the_same_request_has_the_same_answer",
          "tests/api/test_idempotency.py::test_another_request_with_the_key_is_refused",
          "tests/api/test_idempotency.py::test_keys_of_one_are_no_keys_of_another_and_end_after_their_time")),
    Item(28, "secrets in logs, manifests and archives", "redacted where they enter; ours are nowhere",
         ("tests/worker/engine/test_log_lines.py::test_secrets_are_redacted",
          "tests/worker/engine/test_log_config.py::test_secrets_are_redacted",
          "tests/worker/engine/test_log_warnings.py::test_a_secret_in_a_warning_is_redacted",
          f"{HERE}test_canaries.py::test_neither_secrets_nor_private_prompts_are_anywhere")),
    Item(29, "private prompts", "only in the file that workers read; elsewhere keyed hashes",
         ("tests/workloads/test_privacy.py::test_no_word_of_a_prompt_is_in_the_trace_or_left_on_disk",
          "tests/workloads/test_privacy.py::test_hashes_need_the_key_and_equal_prompts_have_equal_hashes",
          "tests/worker/test_requests.py::test_a_keyed_hash_is_never_sent",
          f"{HERE}test_canaries.py::test_neither_secrets_nor_private_prompts_are_anywhere"),
         left="the same search after a run on an engine"),
    Item(30, "messages in the broker that run code", "JSON only, a password, nothing kept",
         (f"{HERE}test_edges.py::test_the_broker_takes_json_and_no_pickle",
          "tests/ops/test_deployment.py::test_redis_refuses_rather_than_forgets_and_wants_a_password")),
    Item(31, "metrics scraped from elsewhere", "only the supervisor's own socket; a manifest cannot name one",
         refused("host", "port", "socket")),
    Item(32, "what errors and descriptions give away", "an opaque id",
         (f"{EDGE}test_a_fault_of_ours_is_opaque", f"{HERE}test_edges.py::test_what_describes_the_api_has_no_secret")),
    Item(33, "downloads that are paths", "only digests and ids name files",
         ("tests/artifacts/test_store.py::test_only_a_digest_names_an_artifact",
          f"{HERE}test_edges.py::test_no_address_leads_out_of_what_is_served")),
    Item(34, "an engine that reaches out", "offline by its environment, no capabilities, a read-only root",
         ("tests/domain/test_launch.py::test_nothing_is_inherited_and_every_cache_is_private",
          "tests/ops/test_deployment.py::test_every_service_is_confined"),
         left="an engine's own attempt to connect, on a host where it may be confined"),
    Item(35, "what another's cached prefix gives away", "a fresh server for each session; salts by group",
         ("tests/worker/test_requests.py::test_a_salt_group_shares_its_cache_with_nobody_else",)),
    Item(36, "traces of what was deleted, and of who did it",
         "evidence goes with its experiment; the audit log only grows",
         (f"{ACCESS}test_the_audit_log_cannot_be_changed",
          "tests/access/test_quotas.py::test_who_submitted_and_cancelled_is_in_the_audit_log"),
         left="deleting a whole project, with its traces and prompt files"),
    Item(37, "scripts of others", "vendored, their digests compared",
         ("tests/browser/test_access.py::test_vendored_files_are_those_of_their_list",)),
)  # fmt: skip


def page() -> str:
    """``docs/threat-model.md``."""
    rows = "\n".join(f"| {i.number} | {i.attack} | {i.answer} | {_shown(i)} |" for i in ITEMS)
    still_open = [i for i in ITEMS if i.left]
    left = "\n".join(f"- **{i.number}, {i.attack}**: {i.left}" for i in still_open)
    return f"{HEAD}\n| | attack | answer | tests |\n|---|---|---|---|\n{rows}\n\n## Open\n\n{left}\n"


def _shown(item: Item) -> str:
    names: dict[str, list[str]] = {}
    for test in item.tests:
        name, _, case = test.partition("[")
        names.setdefault(name.replace("tests/", "", 1), []).append(case.rstrip("]"))
    parts = [f"`{name}`{_cases(cases)}" for name, cases in names.items()]
    return "<br>".join([*parts, *(["**open**, see below"] if item.left else [])])


def _cases(cases: list[str]) -> str:
    known = [case for case in cases if case]
    return f" ({', '.join(known)})" if known else ""


HEAD = """# Threat model

Written by `python -m tests.security.checklist`; a test compares this page with the tests that it names.

Whoever submits an experiment decides what a worker's engine runs, within the manifest; whoever reads sees prompts and
answers of their project. So the service trusts neither: it knows who asks (`docs/access.md`), a manifest can name
nothing that runs code or opens files, and an engine gets no secrets. It trusts the administrator, the database, the
hosts of its workers and the models that they are given. Not defended against: an administrator, root on a worker host,
a model that was made to answer badly.
"""

if __name__ == "__main__":
    from pathlib import Path

    (Path(__file__).parents[2] / "docs" / "threat-model.md").write_text(page())
