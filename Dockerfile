# Stages: tools → python (the locked environment) → web | worker (with an engine runtime of its own).
ARG BASE=debian:trixie-slim

FROM ${BASE} AS tools
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 python3-pip python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --create-home --home-dir /var/lib/verdraft verdraft \
    && install --directory --owner verdraft /var/lib/verdraft/home
WORKDIR /opt/verdraft

FROM tools AS python
ENV UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy
COPY scripts/bootstrap.lock scripts/
RUN python3 -m pip install --no-cache-dir --require-hashes --target /opt/uv --requirement scripts/bootstrap.lock
COPY requirements.lock ./
RUN /opt/uv/bin/uv venv --python python3 .venv \
    && /opt/uv/bin/uv pip sync --no-cache --python .venv/bin/python --require-hashes requirements.lock
COPY pyproject.toml README.md alembic.ini ./
COPY app app
COPY worker worker
COPY migrations migrations
COPY frontend frontend
COPY models models
RUN /opt/uv/bin/uv pip install --no-cache --python .venv/bin/python --no-build-isolation --no-deps --editable .

FROM tools AS web
COPY --from=python /opt/verdraft /opt/verdraft
ENV PATH=/opt/verdraft/.venv/bin:$PATH VERDRAFT_HOME=/var/lib/verdraft/home VERDRAFT_HOST=0.0.0.0
USER verdraft
EXPOSE 8400
CMD ["uvicorn", "app.main:create_app", "--factory", "--host", "0.0.0.0", "--port", "8400"]

FROM web AS worker
ENV VERDRAFT_RUNTIME_ROOT=/var/lib/verdraft/runtimes
RUN verdraft runtime install cpu
CMD ["celery", "--app", "worker.celery_app", "worker", "--beat", "--schedule", "/tmp/beat", \
     "--pool", "prefork", "--concurrency", "1", "--prefetch-multiplier", "1"]
