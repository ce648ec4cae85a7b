from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import anthropic
from traceloop.sdk import Traceloop
from traceloop.sdk.decorators import agent, tool

Traceloop.init(telemetry_enabled=False)
client = anthropic.Anthropic()


@tool(name="get_weather")
def get_weather(city):
    return {"Lisbon": "sun, 24 degrees", "Porto": "rain, 17 degrees"}[city]


@tool(name="find_sights")
def find_sights(city):
    return "castle, tram"


@tool(name="book_tour")
def book_tour(sight):
    raise RuntimeError("sold out")


@tool(name="ask_forecaster")
def ask_forecaster(input):
    return forecaster(input)


@tool(name="ask_guide")
def ask_guide(input):
    return guide(input)


@agent(name="forecaster")
def forecaster(question):
    return answer("You forecast the weather.", {"get_weather": get_weather}, question)


@agent(name="guide")
def guide(question):
    return answer("You guide visitors.", {"find_sights": find_sights, "book_tour": book_tour}, question)


@agent(name="planner")
def planner(question):
    return answer("You plan trips.", {"ask_forecaster": ask_forecaster, "ask_guide": ask_guide}, question)


def answer(instructions, tools, question):
    messages = [{"role": "user", "content": question}]
    offered = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
    while True:
        with client.messages.stream(
            model="claude-sonnet-5", max_tokens=1000, system=instructions, messages=messages, tools=offered
        ) as stream:
            said = stream.get_final_message()
        messages.append({"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in said.content]})
        if said.stop_reason != "tool_use":
            return said.content[0].text
        asked = [b for b in said.content if b.type == "tool_use"]
        with ThreadPoolExecutor() as pool:
            results = [pool.submit(copy_context().run, call, tools[b.name], b) for b in asked]
        messages.append({"role": "user", "content": [r.result() for r in results]})


def call(tool, asked):
    result = {"type": "tool_result", "tool_use_id": asked.id}
    try:
        return {**result, "content": tool(**asked.input)}
    except RuntimeError as e:
        return {**result, "content": str(e), "is_error": True}


print(planner("Where to on Sunday?"))
