from crewai import Agent, Crew, Task
from crewai.tools import tool
from openinference.instrumentation.crewai import CrewAIInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
CrewAIInstrumentor().instrument(tracer_provider=provider)
OpenAIInstrumentor().instrument(tracer_provider=provider)


@tool
def get_weather(city: str) -> str:
    """Tells the weather."""
    return {"Lisbon": "sun, 24 degrees", "Porto": "rain, 17 degrees"}[city]


@tool
def find_sights(city: str) -> str:
    """Finds sights."""
    return "castle, tram"


@tool
def book_tour(sight: str) -> str:
    """Books a tour."""
    raise RuntimeError("sold out")


def agent(role, instructions, tools, **more):
    return Agent(role=role, goal="help", backstory=instructions, tools=tools, llm="openai/gpt-5", **more)


forecaster = agent("forecaster", "You forecast the weather.", [get_weather])
guide = agent("guide", "You guide visitors.", [find_sights, book_tour])
planner = agent("planner", "You plan trips.", [], allow_delegation=True)

plan = Task(description="Where to on Sunday?", expected_output="a city", agent=planner)
print(Crew(name="trip", agents=[planner, forecaster, guide], tasks=[plan]).kickoff().raw)
