import json
import sys

import openai

address, key = sys.argv[1:]
client = openai.OpenAI(base_url=address + "/v1", api_key=key)


def ask(question, using=client, **more):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."},
                {"role": "assistant", "content": "Hello."}, {"role": "user", "content": question}]
    return using.chat.completions.create(**{"model": "agent/guide", "messages": messages, **more})


def refused(**more):
    try:
        ask("Where to?", **more)
    except openai.APIStatusError as e:
        return [type(e).__name__, e.status_code, e.code, e.param]


out = {"models": [m.id for m in client.models.list()], "model": client.models.retrieve("agent/guide").id}

whole = ask("Where to?", user="ann", metadata={"team": "a"})
out["whole"] = [whole.choices[0].message.content, whole.choices[0].finish_reason, whole.usage.total_tokens > 0]

pieces = list(ask("Where to?", stream=True, stream_options={"include_usage": True}))
text = [p.choices[0].delta.content for p in pieces if p.choices and p.choices[0].delta.content]
out["stream"] = ["".join(text), len(text) > 1, pieces[-2].choices[0].finish_reason, pieces[-1].usage.total_tokens > 0]

out["errors"] = [
    refused(model="agent/nobody"), refused(n=2), refused(messages=[]), refused(tools=[{"type": "function", "function": {"name": "f"}}]),
    refused(using=client.with_options(api_key="wrong")), refused(messages=[{"role": "user", "content": "Break."}]),
]
try:
    list(ask("x", messages=[{"role": "user", "content": "Break."}], stream=True))
except openai.APIError as e:
    out["stream error"] = [type(e).__name__, e.code]

# The client gives up, and its own second try finds the run of the first.
once = {"Idempotency-Key": "once " + sys.argv[0]}
slow = [{"role": "user", "content": "Slowly."}]
try:
    ask("x", client.with_options(timeout=0.5, max_retries=0), messages=slow, extra_headers=once)
except openai.APITimeoutError as e:
    out["timeout"] = type(e).__name__
raw = client.with_options(timeout=1, max_retries=9).chat.completions.with_raw_response
answers = [raw.create(model="agent/guide", messages=slow, extra_headers=once) for _ in range(2)]
out["once"] = [answers[0].parse().choices[0].message.content, answers[0].headers["X-Actlog-Run"] == answers[1].headers["X-Actlog-Run"]]
out["again"] = "".join(p.choices[0].delta.content or "" for p in ask("x", messages=slow, stream=True, extra_headers=once))
out["another"] = refused(extra_headers=once)
print(json.dumps(out))
