"""The trace that OpenAPI and the docs show; a test stores it."""

TRACE = (
    '{"format":"verdraft/trace/v0","name":"tasks","description":"one copy task","source":"written by hand",'
    '"content_valid":true,"warmup_requests":0,'
    '"loads":[{"name":"low","rate_rps":2.0,"requests":1,"duration_ns":1000000000}]}\n'
    '{"request_id":"copy-1","load":"low","due_ns":0,"prompt_token_ids":[1,2,3],"max_tokens":8,"strata":{"task":"copy"}}\n'
)
