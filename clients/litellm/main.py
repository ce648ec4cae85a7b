import json
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import litellm
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
litellm.callbacks = ["otel"]
tracer = trace.get_tracer("shop")


def get_weather(city):
    return {"Lisbon": "sun, 24 degrees", "Porto": "rain, 17 degrees"}[city]


def find_sights(city):
    return "castle, tram"


def book_tour(sight):
    raise RuntimeError("sold out")


def ask_forecaster(input):
    return agent("forecaster", "You forecast the weather.", [get_weather], input)


def ask_guide(input):
    return agent("guide", "You guide visitors.", [find_sights, book_tour], input)


def agent(name, instructions, tools, question):
    with tracer.start_as_current_span(f"invoke_agent {name}"):
        messages = [{"role": "system", "content": instructions}, {"role": "user", "content": question}]
        offered = [{"type": "function", "function": {"name": t.__name__, "parameters": {"type": "object"}}} for t in tools]
        while True:
            answer = litellm.completion(model="openai/gpt-5", messages=messages, tools=offered).choices[0].message
            if not answer.tool_calls:
                return answer.content
            messages.append(answer.model_dump(exclude_none=True))
            with ThreadPoolExecutor() as pool:
                calls = [pool.submit(copy_context().run, call, tools, c) for c in answer.tool_calls]
            messages += [{"role": "tool", "tool_call_id": c.id, "content": r.result()} for c, r in zip(answer.tool_calls, calls)]


def call(tools, asked):
    tool = next(t for t in tools if t.__name__ == asked.function.name)
    about = {"gen_ai.tool.call.id": asked.id, "gen_ai.tool.call.arguments": asked.function.arguments}
    try:
        with tracer.start_as_current_span(f"execute_tool {tool.__name__}", attributes=about):
            return tool(**json.loads(asked.function.arguments))
    except RuntimeError as e:
        return str(e)


print(agent("planner", "You plan trips.", [ask_forecaster, ask_guide], "Where to on Sunday?"))
