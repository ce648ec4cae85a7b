import asyncio
import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LlamaIndexInstrumentor().instrument(tracer_provider=provider)


def get_weather(city: str) -> str:
    """Tells the weather."""
    return {"Lisbon": "sun, 24 degrees", "Porto": "rain, 17 degrees"}[city]


def find_sights(city: str) -> str:
    """Finds sights."""
    return "castle, tram"


def book_tour(sight: str) -> str:
    """Books a tour."""
    raise RuntimeError("sold out")


def agent(name, instructions, tools):
    llm = OpenAI("gpt-5", api_base=os.environ["OPENAI_BASE_URL"], additional_kwargs={"stream_options": {"include_usage": True}})
    return FunctionAgent(name=name, system_prompt=instructions, tools=tools, llm=llm)


forecaster = agent("forecaster", "You forecast the weather.", [get_weather])
guide = agent("guide", "You guide visitors.", [find_sights, book_tour])


async def ask_forecaster(input: str) -> str:
    """Asks about the weather."""
    return str(await forecaster.run(input))


async def ask_guide(input: str) -> str:
    """Asks about sights."""
    return str(await guide.run(input))


planner = agent("planner", "You plan trips.", [ask_forecaster, ask_guide])


async def main():
    return await planner.run("Where to on Sunday?")


print(asyncio.run(main()))
