"""Every operation of the API as a method. Generated from the OpenAPI document by ``clients/python/generate.py``; do not edit."""

# ruff: noqa
from __future__ import annotations
from pathlib import Path
from typing import Any
from verdraft_client import _core as core
from verdraft_client._asynchronous import AsyncBase
from verdraft_client.models import *


class AsyncClient(AsyncBase):
    """The API at ``url``; a context manager. Every method raises ``VerdraftError``."""

    async def whoami(self) -> WhoRead:
        """Whom the service takes you for."""
        return core.read(WhoRead, await self._ask("GET", core.path("/api/v1/whoami"), core.query(), {}, None))

    async def list_tokens(self) -> list[TokenRead]:
        """Every token without its secret, newest first; the revoked and expired ones too."""
        return core.read(list[TokenRead], await self._ask("GET", core.path("/api/v1/tokens"), core.query(), {}, None))

    async def create_token(self, wish: TokenWish, *, idempotency_key: str | None = None) -> TokenMade:
        """Make a token. Its secret is in this answer and never again."""
        return core.read(
            TokenMade,
            await self._ask(
                "POST",
                core.path("/api/v1/tokens"),
                core.query(),
                core.body(wish.model_dump_json(exclude_none=True), "application/json"),
                idempotency_key,
            ),
        )

    async def revoke_token(self, token_id: str) -> None:
        """Refuse a token from the next request on."""
        await self._ask("DELETE", core.path("/api/v1/tokens/{token_id}", token_id=token_id), core.query(), {}, None)

    async def list_projects(self) -> list[ProjectRead]:
        """Every project, by name."""
        return core.read(
            list[ProjectRead], await self._ask("GET", core.path("/api/v1/projects"), core.query(), {}, None)
        )

    async def create_project(self, wish: ProjectWish, *, idempotency_key: str | None = None) -> list[ProjectRead]:
        """Make a project; answers with all of them."""
        return core.read(
            list[ProjectRead],
            await self._ask(
                "POST",
                core.path("/api/v1/projects"),
                core.query(),
                core.body(wish.model_dump_json(exclude_none=True), "application/json"),
                idempotency_key,
            ),
        )

    async def list_accounts(self) -> list[AccountRead]:
        """Everyone who may log in with a browser, by name."""
        return core.read(
            list[AccountRead], await self._ask("GET", core.path("/api/v1/accounts"), core.query(), {}, None)
        )

    async def set_account(self, wish: AccountWish, *, idempotency_key: str | None = None) -> list[AccountRead]:
        """Make an account, or give one a new password, project or scope, which logs it out; answers with all of them."""
        return core.read(
            list[AccountRead],
            await self._ask(
                "POST",
                core.path("/api/v1/accounts"),
                core.query(),
                core.body(wish.model_dump_json(exclude_none=True), "application/json"),
                idempotency_key,
            ),
        )

    async def disable_account(self, name: str) -> None:
        """Log an account out everywhere and let nobody log in with it."""
        await self._ask("DELETE", core.path("/api/v1/accounts/{name}", name=name), core.query(), {}, None)

    async def read_audit(self, *, cursor: int | None = None, limit: int | None = None) -> AuditPage:
        """Who did what to what, newest first. The log only grows: the database refuses to change or delete it."""
        return core.read(
            AuditPage,
            await self._ask("GET", core.path("/api/v1/audit"), core.query(cursor=cursor, limit=limit), {}, None),
        )

    async def list_experiments(
        self,
        *,
        q: str | None = None,
        state: ExperimentState | None = None,
        word: VerdictWord | None = None,
        owner: str | None = None,
        tag: str | None = None,
        archived: Archived | None = None,
        sort: Order | None = None,
        cursor: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> ExperimentPage:
        """Experiments, newest first, as far as they are asked for; archived ones only with ``archived``."""
        return core.read(
            ExperimentPage,
            await self._ask(
                "GET",
                core.path("/api/v1/experiments"),
                core.query(
                    q=q,
                    state=state,
                    word=word,
                    owner=owner,
                    tag=tag,
                    archived=archived,
                    sort=sort,
                    cursor=cursor,
                    before=before,
                    limit=limit,
                ),
                {},
                None,
            ),
        )

    async def register(
        self,
        content: core.Content,
        *,
        owner: str | None = None,
        priority: int | None = None,
        content_type: str = "application/json",
        idempotency_key: str | None = None,
    ) -> ExperimentRead:
        """Register a manifest. The same manifest again gives the first experiment unchanged, with status 200."""
        return core.read(
            ExperimentRead,
            await self._ask(
                "POST",
                core.path("/api/v1/experiments"),
                core.query(owner=owner, priority=priority),
                core.body(content, content_type),
                idempotency_key,
            ),
        )

    async def read_experiment(self, experiment_id: str) -> ExperimentRead:
        """One experiment and its progress, by digest or a unique prefix of at least 12 digits."""
        return core.read(
            ExperimentRead,
            await self._ask(
                "GET",
                core.path("/api/v1/experiments/{experiment_id}", experiment_id=experiment_id),
                core.query(),
                {},
                None,
            ),
        )

    async def shelve(self, experiment_id: str, wish: Shelving) -> ExperimentRead:
        """Set an experiment's tags, or archive it. Neither is part of the manifest; archiving stops and deletes nothing."""
        return core.read(
            ExperimentRead,
            await self._ask(
                "PATCH",
                core.path("/api/v1/experiments/{experiment_id}", experiment_id=experiment_id),
                core.query(),
                core.body(wish.model_dump_json(exclude_none=True), "application/json"),
                None,
            ),
        )

    async def delete_experiment(self, experiment_id: str) -> DeletedRead:
        """Delete an experiment that has ended, with its evidence, files and reports. There is no way back."""
        return core.read(
            DeletedRead,
            await self._ask(
                "DELETE",
                core.path("/api/v1/experiments/{experiment_id}", experiment_id=experiment_id),
                core.query(),
                {},
                None,
            ),
        )

    async def read_manifest(self, experiment_id: str) -> Any:
        """The manifest's canonical bytes, whose sha256 is the experiment's id."""
        return core.read(
            Any,
            await self._ask(
                "GET",
                core.path("/api/v1/experiments/{experiment_id}/manifest", experiment_id=experiment_id),
                core.query(),
                {},
                None,
            ),
        )

    async def cancel(self, experiment_id: str, *, idempotency_key: str | None = None) -> ExperimentRead:
        """Stop an experiment; evidence already recorded is kept. Repeating it changes nothing."""
        return core.read(
            ExperimentRead,
            await self._ask(
                "POST",
                core.path("/api/v1/experiments/{experiment_id}/cancel", experiment_id=experiment_id),
                core.query(),
                {},
                idempotency_key,
            ),
        )

    async def check_manifest(
        self, content: core.Content, *, content_type: str = "application/json", idempotency_key: str | None = None
    ) -> PreflightRead:
        """Check a manifest. Failed checks are listed with status 200; 422 is for a document that is no manifest."""
        return core.read(
            PreflightRead,
            await self._ask(
                "POST", core.path("/api/v1/preflight"), core.query(), core.body(content, content_type), idempotency_key
            ),
        )

    async def list_sessions(self, experiment_id: str) -> list[SessionRead]:
        """Every session of the attempt that counts in each block."""
        return core.read(
            list[SessionRead],
            await self._ask(
                "GET",
                core.path("/api/v1/experiments/{experiment_id}/sessions", experiment_id=experiment_id),
                core.query(),
                {},
                None,
            ),
        )

    async def list_runs(self, experiment_id: str) -> list[RunRead]:
        """Every run of the attempt that counts in each block."""
        return core.read(
            list[RunRead],
            await self._ask(
                "GET",
                core.path("/api/v1/experiments/{experiment_id}/runs", experiment_id=experiment_id),
                core.query(),
                {},
                None,
            ),
        )

    async def read_run(self, run_id: str) -> RunRead:
        """One run."""
        return core.read(
            RunRead, await self._ask("GET", core.path("/api/v1/runs/{run_id}", run_id=run_id), core.query(), {}, None)
        )

    async def list_traces(self) -> list[TraceRead]:
        """Every stored trace, newest first."""
        return core.read(list[TraceRead], await self._ask("GET", core.path("/api/v1/traces"), core.query(), {}, None))

    async def add_trace(
        self, content: core.Content, *, content_type: str = "application/jsonl", idempotency_key: str | None = None
    ) -> TraceRead:
        """Store a trace under its digest. The same trace again answers 200."""
        return core.read(
            TraceRead,
            await self._ask(
                "POST", core.path("/api/v1/traces"), core.query(), core.body(content, content_type), idempotency_key
            ),
        )

    async def read_trace(self, digest: str) -> TraceRead:
        """One stored trace."""
        return core.read(
            TraceRead,
            await self._ask("GET", core.path("/api/v1/traces/{digest}", digest=digest), core.query(), {}, None),
        )

    async def list_observations(
        self, run_id: str, *, cursor: str | None = None, limit: int | None = None
    ) -> ObservationPage:
        """What the client saw of each request of a run, by request id."""
        return core.read(
            ObservationPage,
            await self._ask(
                "GET",
                core.path("/api/v1/runs/{run_id}/observations", run_id=run_id),
                core.query(cursor=cursor, limit=limit),
                {},
                None,
            ),
        )

    async def list_series(self, run_id: str) -> list[Series]:
        """What was sampled during a run: the engine's metrics, its devices and its host."""
        return core.read(
            list[Series],
            await self._ask("GET", core.path("/api/v1/runs/{run_id}/series", run_id=run_id), core.query(), {}, None),
        )

    async def read_timeline(self, run_id: str) -> list[Track]:
        """A run on one clock: offered and in flight, the engine's queue and cache, its device and host."""
        return core.read(
            list[Track],
            await self._ask("GET", core.path("/api/v1/runs/{run_id}/timeline", run_id=run_id), core.query(), {}, None),
        )

    async def read_timeline_figure(self, run_id: str) -> dict[str, Any]:
        """The timeline as Plotly's JSON (``data`` and ``layout``)."""
        return core.read(
            dict[str, Any],
            await self._ask(
                "GET", core.path("/api/v1/runs/{run_id}/figures/timeline", run_id=run_id), core.query(), {}, None
            ),
        )

    async def read_log(self, session_id: str) -> str:
        """The end of the server's log, as plain text."""
        return (
            await self._ask(
                "GET", core.path("/api/v1/sessions/{session_id}/log", session_id=session_id), core.query(), {}, None
            )
        ).text

    async def list_capabilities(self) -> list[CapabilityRead]:
        """What each worker can run: runtimes, models, hardware and software."""
        return core.read(
            list[CapabilityRead], await self._ask("GET", core.path("/api/v1/capabilities"), core.query(), {}, None)
        )

    async def read_report(self, experiment_id: str, *, against: str | None = None) -> Report:
        """Verdicts with the numbers behind them, ``interim`` until all blocks are complete; ``expiry``: do they hold?"""
        return core.read(
            Report,
            await self._ask(
                "GET",
                core.path("/api/v1/experiments/{experiment_id}/report", experiment_id=experiment_id),
                core.query(against=against),
                {},
                None,
            ),
        )

    async def read_markdown(self, experiment_id: str, *, against: str | None = None) -> str:
        """The report as Markdown: the answer first, every number with its interval, n and method at the end."""
        return (
            await self._ask(
                "GET",
                core.path("/api/v1/experiments/{experiment_id}/report.md", experiment_id=experiment_id),
                core.query(against=against),
                {},
                None,
            )
        ).text

    async def read_printable(self, experiment_id: str, *, against: str | None = None) -> str:
        """The same as one HTML file to print or send; it loads nothing."""
        return (
            await self._ask(
                "GET",
                core.path("/api/v1/experiments/{experiment_id}/report.html", experiment_id=experiment_id),
                core.query(against=against),
                {},
                None,
            )
        ).text

    async def list_figures(self, experiment_id: str) -> list[FigureRead]:
        """The figures of the report, by name."""
        return core.read(
            list[FigureRead],
            await self._ask(
                "GET",
                core.path("/api/v1/experiments/{experiment_id}/figures", experiment_id=experiment_id),
                core.query(),
                {},
                None,
            ),
        )

    async def read_figure_csv(
        self,
        experiment_id: str,
        name: str,
        *,
        workload: str | None = None,
        load: str | None = None,
        stratum: str | None = None,
        metric: Metric | None = None,
    ) -> str:
        """The figure's numbers, all digits, with interval, n and method; no cell is a formula."""
        return (
            await self._ask(
                "GET",
                core.path(
                    "/api/v1/experiments/{experiment_id}/figures/{name}.csv", experiment_id=experiment_id, name=name
                ),
                core.query(workload=workload, load=load, stratum=stratum, metric=metric),
                {},
                None,
            )
        ).text

    async def read_figure(
        self,
        experiment_id: str,
        name: str,
        *,
        workload: str | None = None,
        load: str | None = None,
        stratum: str | None = None,
        metric: Metric | None = None,
    ) -> dict[str, Any]:
        """One figure as Plotly's JSON (``data`` and ``layout``); it states only numbers of the report."""
        return core.read(
            dict[str, Any],
            await self._ask(
                "GET",
                core.path("/api/v1/experiments/{experiment_id}/figures/{name}", experiment_id=experiment_id, name=name),
                core.query(workload=workload, load=load, stratum=stratum, metric=metric),
                {},
                None,
            ),
        )

    async def read_bundle(self, experiment_id: str, *, to: str | Path, with_raw: bool | None = None) -> Path:
        """Manifest, traces, evidence and report in one tar.zst; check it with ``verdraft verify``."""
        return await self._download(
            "GET",
            core.path("/api/v1/experiments/{experiment_id}/bundle", experiment_id=experiment_id),
            core.query(with_raw=with_raw),
            {},
            None,
            to=Path(to),
        )

    async def list_cases(
        self,
        experiment_id: str,
        *,
        arm: str | None = None,
        workload: str | None = None,
        load: str | None = None,
        stratum: str | None = None,
        block: int | None = None,
        outcome: Outcome | None = None,
        answer: Answer | None = None,
        score: Scored | None = None,
        runs: Which | None = None,
        request: str | None = None,
        text: str | None = None,
        e2e_min: float | None = None,
        ttft_min: float | None = None,
        tpot_min: float | None = None,
        late_min: float | None = None,
        ratio_min: float | None = None,
        tokens_min: int | None = None,
        tokens_max: int | None = None,
        prompt_min: int | None = None,
        prompt_max: int | None = None,
        sort: Sort | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> CasePage:
        """Requests of complete blocks under every arm. `after` is the page before's `next_cursor`."""
        return core.read(
            CasePage,
            await self._ask(
                "GET",
                core.path("/api/v1/experiments/{experiment_id}/cases", experiment_id=experiment_id),
                core.query(
                    arm=arm,
                    workload=workload,
                    load=load,
                    stratum=stratum,
                    block=block,
                    outcome=outcome,
                    answer=answer,
                    score=score,
                    runs=runs,
                    request=request,
                    text=text,
                    e2e_min=e2e_min,
                    ttft_min=ttft_min,
                    tpot_min=tpot_min,
                    late_min=late_min,
                    ratio_min=ratio_min,
                    tokens_min=tokens_min,
                    tokens_max=tokens_max,
                    prompt_min=prompt_min,
                    prompt_max=prompt_max,
                    sort=sort,
                    after=after,
                    limit=limit,
                ),
                {},
                None,
            ),
        )

    async def export_cases(
        self,
        experiment_id: str,
        *,
        to: str | Path,
        arm: str | None = None,
        workload: str | None = None,
        load: str | None = None,
        stratum: str | None = None,
        block: int | None = None,
        outcome: Outcome | None = None,
        answer: Answer | None = None,
        score: Scored | None = None,
        runs: Which | None = None,
        request: str | None = None,
        text: str | None = None,
        e2e_min: float | None = None,
        ttft_min: float | None = None,
        tpot_min: float | None = None,
        late_min: float | None = None,
        ratio_min: float | None = None,
        tokens_min: int | None = None,
        tokens_max: int | None = None,
        prompt_min: int | None = None,
        prompt_max: int | None = None,
        sort: Sort | None = None,
        after: str | None = None,
    ) -> Path:
        """The same as CSV, at most 100,000 rows; texts that begin like a formula have an apostrophe before them."""
        return await self._download(
            "GET",
            core.path("/api/v1/experiments/{experiment_id}/cases.csv", experiment_id=experiment_id),
            core.query(
                arm=arm,
                workload=workload,
                load=load,
                stratum=stratum,
                block=block,
                outcome=outcome,
                answer=answer,
                score=score,
                runs=runs,
                request=request,
                text=text,
                e2e_min=e2e_min,
                ttft_min=ttft_min,
                tpot_min=tpot_min,
                late_min=late_min,
                ratio_min=ratio_min,
                tokens_min=tokens_min,
                tokens_max=tokens_max,
                prompt_min=prompt_min,
                prompt_max=prompt_max,
                sort=sort,
                after=after,
            ),
            {},
            None,
            to=Path(to),
        )

    async def compare_experiments(self, *, of: list[str]) -> Across:
        """What 2 to 6 experiments pin otherwise, and the verdicts of each from its own blocks; no ratio between two."""
        return core.read(Across, await self._ask("GET", core.path("/api/v1/compare"), core.query(of=of), {}, None))

    async def read_operations(self) -> OperationsRead:
        """Queues, leases, accelerators, hosts, failures and sizes, all of one moment."""
        return core.read(
            OperationsRead, await self._ask("GET", core.path("/api/v1/operations"), core.query(), {}, None)
        )

    async def list_accelerators(self) -> list[AcceleratorRead]:
        """Every accelerator that a worker has published, by host and name."""
        return core.read(
            list[AcceleratorRead], await self._ask("GET", core.path("/api/v1/accelerators"), core.query(), {}, None)
        )

    async def quarantine(
        self, host: str, name: str, wish: Reason, *, idempotency_key: str | None = None
    ) -> AcceleratorRead:
        """Let nothing start on an accelerator. A block that is under way there ends first."""
        return core.read(
            AcceleratorRead,
            await self._ask(
                "POST",
                core.path("/api/v1/accelerators/{host}/{name}/quarantine", host=host, name=name),
                core.query(),
                core.body(wish.model_dump_json(exclude_none=True), "application/json"),
                idempotency_key,
            ),
        )

    async def release(
        self, host: str, name: str, wish: Reason, *, idempotency_key: str | None = None
    ) -> AcceleratorRead:
        """Take an accelerator out of quarantine; the reason goes into the log."""
        return core.read(
            AcceleratorRead,
            await self._ask(
                "POST",
                core.path("/api/v1/accelerators/{host}/{name}/release", host=host, name=name),
                core.query(),
                core.body(wish.model_dump_json(exclude_none=True), "application/json"),
                idempotency_key,
            ),
        )

    async def metrics(self) -> str:
        """The same numbers and those of this web process, for Prometheus; without a database only the latter."""
        return (await self._ask("GET", core.path("/metrics"), core.query(), {}, None)).text

    async def list_schemas(self) -> dict[str, str]:
        """The name of each format and the address of its schema."""
        return core.read(dict[str, str], await self._ask("GET", core.path("/api/v1/schemas"), core.query(), {}, None))

    async def read_schema(self, name: str) -> Any:
        """The JSON Schema of one format; ``manifest-written`` is what a person may post as a manifest."""
        return core.read(
            Any, await self._ask("GET", core.path("/api/v1/schemas/{name}", name=name), core.query(), {}, None)
        )

    async def export(self, experiment_id: str, format_name: str, *, to: str | Path, run: str | None = None) -> Path:
        """The evidence of every committed run as csv, jsonl, parquet-requests, parquet-chunks, vllm or llm-d."""
        return await self._download(
            "GET",
            core.path(
                "/api/v1/experiments/{experiment_id}/export/{format_name}",
                experiment_id=experiment_id,
                format_name=format_name,
            ),
            core.query(run=run),
            {},
            None,
            to=Path(to),
        )

    async def list_imports(self) -> list[ImportRead]:
        """Every imported result, newest first."""
        return core.read(list[ImportRead], await self._ask("GET", core.path("/api/v1/imports"), core.query(), {}, None))

    async def add_import(
        self,
        content: core.Content,
        *,
        label: str,
        experiment: str | None = None,
        content_type: str = "application/json",
        idempotency_key: str | None = None,
    ) -> ImportRead:
        """Keep another tool's result, marked as not controlled here. The same file again answers 200."""
        return core.read(
            ImportRead,
            await self._ask(
                "POST",
                core.path("/api/v1/imports"),
                core.query(label=label, experiment=experiment),
                core.body(content, content_type),
                idempotency_key,
            ),
        )

    async def list_experiment_imports(self, experiment_id: str) -> list[ImportRead]:
        """The imported results beside an experiment, newest first."""
        return core.read(
            list[ImportRead],
            await self._ask(
                "GET",
                core.path("/api/v1/experiments/{experiment_id}/imports", experiment_id=experiment_id),
                core.query(),
                {},
                None,
            ),
        )

    async def remove_import(self, digest: str) -> None:
        """Forget an imported result."""
        await self._ask("DELETE", core.path("/api/v1/imports/{digest}", digest=digest), core.query(), {}, None)

    async def list_webhooks(self) -> list[WebhookRead]:
        """Every webhook of the project without its secret, newest first."""
        return core.read(
            list[WebhookRead], await self._ask("GET", core.path("/api/v1/webhooks"), core.query(), {}, None)
        )

    async def create_webhook(self, wish: WebhookWish, *, idempotency_key: str | None = None) -> WebhookMade:
        """Tell an address when experiments end from now on. Its secret is in this answer and never again."""
        return core.read(
            WebhookMade,
            await self._ask(
                "POST",
                core.path("/api/v1/webhooks"),
                core.query(),
                core.body(wish.model_dump_json(exclude_none=True), "application/json"),
                idempotency_key,
            ),
        )

    async def read_webhook(self, webhook_id: str) -> WebhookRead:
        """One webhook, and whether it was disabled."""
        return core.read(
            WebhookRead,
            await self._ask(
                "GET", core.path("/api/v1/webhooks/{webhook_id}", webhook_id=webhook_id), core.query(), {}, None
            ),
        )

    async def delete_webhook(self, webhook_id: str) -> None:
        """Tell it nothing more, and forget what was delivered."""
        await self._ask(
            "DELETE", core.path("/api/v1/webhooks/{webhook_id}", webhook_id=webhook_id), core.query(), {}, None
        )

    async def enable_webhook(self, webhook_id: str, *, idempotency_key: str | None = None) -> WebhookRead:
        """Use a webhook again that was disabled because nothing could be delivered."""
        return core.read(
            WebhookRead,
            await self._ask(
                "POST",
                core.path("/api/v1/webhooks/{webhook_id}/enable", webhook_id=webhook_id),
                core.query(),
                {},
                idempotency_key,
            ),
        )

    async def ping_webhook(self, webhook_id: str, *, idempotency_key: str | None = None) -> DeliveryRead:
        """Send a message that says nothing, within seconds and once; the deliveries tell whether it arrived."""
        return core.read(
            DeliveryRead,
            await self._ask(
                "POST",
                core.path("/api/v1/webhooks/{webhook_id}/ping", webhook_id=webhook_id),
                core.query(),
                {},
                idempotency_key,
            ),
        )

    async def list_deliveries(self, webhook_id: str, *, limit: int | None = None) -> list[DeliveryRead]:
        """The newest messages to a webhook and what became of each; kept for 30 days."""
        return core.read(
            list[DeliveryRead],
            await self._ask(
                "GET",
                core.path("/api/v1/webhooks/{webhook_id}/deliveries", webhook_id=webhook_id),
                core.query(limit=limit),
                {},
                None,
            ),
        )

    async def health(self) -> dict[str, str]:
        """Whether this process reaches its database."""
        return core.read(dict[str, str], await self._ask("GET", core.path("/healthz"), core.query(), {}, None))
