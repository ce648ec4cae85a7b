from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from smolagents import OpenAIModel, ToolCallingAgent, tool

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
SmolagentsInstrumentor().instrument(tracer_provider=provider)


@tool
def get_weather(city: str) -> str:
    """Tells the weather.

    Args:
        city: Where.
    """
    return {"Lisbon": "sun, 24 degrees", "Porto": "rain, 17 degrees"}[city]


@tool
def find_sights(city: str) -> str:
    """Finds sights.

    Args:
        city: Where.
    """
    return "castle, tram"


@tool
def book_tour(sight: str) -> str:
    """Books a tour.

    Args:
        sight: What to see.
    """
    raise RuntimeError("sold out")


def agent(name, instructions, tools, **more):
    return ToolCallingAgent(tools, OpenAIModel("gpt-5"), instructions=instructions, name=name, verbosity_level=0, **more)


forecaster = agent("forecaster", "You forecast the weather.", [get_weather], description="Knows the weather.")
guide = agent("guide", "You guide visitors.", [find_sights, book_tour], description="Knows the sights.")
planner = agent("planner", "You plan trips.", [], managed_agents=[forecaster, guide])

print(planner.run("Where to on Sunday?"))
