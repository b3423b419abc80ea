"""The vLLM adapter: server, scrapes, log lines. A second engine needs these files and no others."""
