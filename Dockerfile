# Stages: tools → environment (.venv from the lock) → engine (a runtime from its lock); then web and worker, which copy from these
# and take the source last, so that a change of the code builds and ships no environment anew. docs/deployment.md says how it was tried.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS tools
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home --home-dir /var/lib/verdraft verdraft \
    && install --directory --owner verdraft --mode 700 /var/lib/verdraft/home
WORKDIR /opt/verdraft

FROM tools AS environment
RUN apt-get update && apt-get install --yes --no-install-recommends python3-pip python3-venv && rm -rf /var/lib/apt/lists/*
COPY scripts/bootstrap.lock scripts/
RUN python3 -m pip install --no-cache-dir --require-hashes --target /opt/uv --requirement scripts/bootstrap.lock
COPY pyproject.toml requirements.lock ./
# The lock as a constraint: versions and hashes are its own, what only the tests need stays out.
RUN export UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy && touch README.md \
    && /opt/uv/bin/uv venv --python python3 .venv \
    && /opt/uv/bin/uv pip install --no-cache --compile-bytecode --python .venv/bin/python \
        --requirement pyproject.toml hatchling --constraint requirements.lock \
    && /opt/uv/bin/uv pip install --no-cache --python .venv/bin/python --no-build-isolation --no-deps --editable .

FROM environment AS engine
ARG RUNTIME=cpu
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# All that the installer imports, and no more: other changes of the code leave this stage in the cache.
COPY app/domain/errors.py app/domain/
COPY worker/filelock.py worker/
COPY worker/runtimes worker/runtimes
RUN .venv/bin/python -c "import sys; from pathlib import Path; from worker.runtimes.install import install; \
    install(sys.argv[1], Path('/opt/verdraft/.runtimes'), torch_index=sys.argv[2])" "${RUNTIME}" "${TORCH_INDEX}"

FROM scratch AS source
COPY alembic.ini pyproject.toml ./
COPY scripts/healthcheck.py scripts/
COPY migrations migrations
COPY models models
COPY frontend frontend
COPY app app
COPY worker worker

FROM tools AS web
COPY --from=environment /opt/verdraft/.venv .venv
COPY --from=source / ./
# Compiled here, because nothing may be written there when it runs.
RUN .venv/bin/python -m compileall -q --invalidation-mode unchecked-hash app worker migrations
ENV PATH=/opt/verdraft/.venv/bin:$PATH VERDRAFT_HOME=/var/lib/verdraft/home VERDRAFT_HOST=0.0.0.0 PYTHONUNBUFFERED=1
USER verdraft
EXPOSE 8400
HEALTHCHECK --interval=15s --timeout=10s --start-period=30s \
    CMD ["python3", "-I", "-S", "scripts/healthcheck.py", "web"]
CMD ["uvicorn", "app.main:create_app", "--factory", "--host", "0.0.0.0", "--port", "8400", "--timeout-graceful-shutdown", "3"]

FROM tools AS worker
# The engine's CPU code is linked with libnuma, and torch compiles kernels for the host that it finds, unless a manifest is eager.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libnuma1 g++ python3-dev \
    && rm -rf /var/lib/apt/lists/*
COPY --from=engine /opt/verdraft/.runtimes .runtimes
COPY --from=environment /opt/verdraft/.venv .venv
COPY --from=source / ./
RUN .venv/bin/python -m compileall -q --invalidation-mode unchecked-hash app worker
ENV PATH=/opt/verdraft/.venv/bin:$PATH VERDRAFT_HOME=/var/lib/verdraft/home HF_HOME=/var/lib/verdraft/home/hub PYTHONUNBUFFERED=1
USER verdraft
# Once a minute, and cheap: it runs beside measurements.
HEALTHCHECK --interval=60s --timeout=15s --start-period=60s \
    CMD ["python3", "-I", "-S", "scripts/healthcheck.py", "worker"]
CMD ["celery", "--app", "worker.celery_app", "worker", "--pool", "prefork", "--prefetch-multiplier", "1", \
     "--without-gossip", "--without-mingle", "--beat", "--schedule", "/tmp/beat", "--loglevel", "INFO"]
