# ruff: noqa: E501  (rows stay on their lines)
"""A small file of every format; each has good rows only."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

SHAREGPT = b"""[
  {"id": "a1", "conversations": [
    {"from": "human", "value": "What is a fjord?"},
    {"from": "gpt", "value": "A long narrow inlet, \\"drowned\\" by the sea.", "weight": 1},
    {"from": "human", "value": "Name one, [please]."},
    {"from": "gpt", "value": "Sognefjord {in Norway}."}
  ]},
  {"id": "a2", "conversations": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi \\\\"}]},
  {"conversations": [{"role": "user", "value": "And a role with a value?"}, {"role": "assistant", "value": "Yes."}]}
]
"""

VLLM_CUSTOM = b"""{"prompt": "What is the capital of Peru?", "output_tokens": 10}
{"prompt": "Count to five.", "note": "kept"}
"""

SPEC_BENCH = b"""{"question_id": 7, "category": "math_reasoning", "turns": ["What is 8 times 12?"], "reference": ["96"]}
{"question_id": 8, "category": "writing", "turns": ["Write a line.", "Make it rhyme."]}
{"question_id": 9, "category": "qa", "turns": ["Which planet is nearest?"], "reference": "Mercury"}
{"question_id": 10, "category": "rag", "turns": ["When, says the text?"], "reference": [["In 1988.", "1988"]]}
"""

SPEED_BENCH = b"""{"question_id": "q1", "category": "coding", "sub_category": "python", "source": "own", "src_id": "1", \
"difficulty": "easy", "multiturn": true, "messages": [{"role": "user", "content": "Sort a list."}, {"role": "user", "content": "Backwards."}]}
{"question_id": "q2", "category": "qa", "sub_category": null, "source": "own", "src_id": "2", \
"difficulty": "hard", "multiturn": false, "messages": [{"role": "user", "content": "Why is the sky blue?"}]}
"""

MOONCAKE = b"""{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [1, 2]}
{"timestamp": 1500, "input_length": 1000, "output_length": 7, "hash_ids": [1, 3]}
{"timestamp": 2000.5, "output_length": 3, "text_input": "Hello there", "session_id": "s", "delay": 250}
"""

AZURE = (
    b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    b"2023-11-16 18:15:46.6805900,374,44\r\n"
    b"2023-11-16 18:15:50.9951690,396,109\r\n"
    b"2023-11-16 18:15:51.2224670,879,55\r\n"
)

AZURE_ZONED = (
    b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    b"2024-05-10 00:00:00.009930+00:00,2162,5\r\n"
    b"2024-05-10 02:00:00.017335+02:00,2399,6\r\n"
)

BURSTGPT = b"""Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45.5,GPT-4,1087,230,1317,API log
"""

BURSTGPT_2 = b"""Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
19440110.0,1722ac82,43,GPT-4,906,446,1352,Conversation log
19440161.0,d5983bf9,2,ChatGPT,36,29,65,Conversation log
"""

EVALSCOPE = b"""{"timestamp": 1700000000.25, "body": {"model": "m", "messages": [{"role": "user", "content": "Hi"}], \
"max_tokens": 9, "temperature": 0, "stream": true}, "headers": {"X-Team": "a"}, "request_id": "x", "completion_tokens": 4}
{"timestamp": "2023-11-14T22:13:21Z", "body": "{\\"prompt\\": \\"Once\\", \\"max_tokens\\": 3}"}
"""

OPENAI = b"""{"timestamp": 12.5, "model": "m", "messages": [{"role": "system", "content": "Answer in JSON."}, \
{"role": "user", "content": [{"type": "text", "text": "List two colours."}]}], "max_completion_tokens": 40, "temperature": 0.7, \
"stop": "END", "response_format": {"type": "json_schema", "json_schema": {"name": "c", "schema": {"type": "array"}}}}
{"timestamp": 13, "prompt": [5, 6, 7], "max_tokens": 2, "logprobs": 3}
{"timestamp": 14.25, "messages": [{"role": "user", "content": "Weather in Oslo?"}], "max_tokens": 20, "tool_choice": "auto", \
"tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]}
"""


def speed_bench_parquet() -> bytes:
    """Six rows in three row groups."""
    rows = [
        {
            "question_id": f"q{n}",
            "category": "qa",
            "sub_category": "general",
            "turns": [f"Question {n}?"],
            "multiturn": False,
        }
        for n in range(6)
    ]
    file = io.BytesIO()
    table = pa.Table.from_pylist(rows)
    with pq.ParquetWriter(file, table.schema, write_page_checksum=True) as writer:
        for start in (0, 2, 4):
            writer.write_table(table.slice(start, 2))
    return file.getvalue()


SAMPLES = {
    "sharegpt": SHAREGPT,
    "vllm-custom": VLLM_CUSTOM,
    "spec-bench": SPEC_BENCH,
    "speed-bench": SPEED_BENCH,
    "speed-bench-parquet": speed_bench_parquet(),
    "mooncake": MOONCAKE,
    "azure": AZURE,
    "burstgpt": BURSTGPT,
    "evalscope": EVALSCOPE,
    "openai": OPENAI,
}
FURTHER = {"azure": AZURE_ZONED, "burstgpt": BURSTGPT_2}
"""Second forms of formats that have them."""
