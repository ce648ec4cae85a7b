from agno.agent import Agent
from agno.models.openai import OpenAIChat
from agno.team import Team
from openinference.instrumentation.agno import AgnoInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
AgnoInstrumentor().instrument(tracer_provider=provider)


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
    return Agent(name=name, model=OpenAIChat("gpt-5"), instructions=instructions, tools=tools, telemetry=False)


forecaster = agent("forecaster", "You forecast the weather.", [get_weather])
guide = agent("guide", "You guide visitors.", [find_sights, book_tour])
planner = Team(
    name="planner", members=[forecaster, guide], model=OpenAIChat("gpt-5"), instructions="You plan trips.", telemetry=False
)

print(planner.run("Where to on Sunday?").content)
