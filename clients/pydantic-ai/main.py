from pydantic_ai import Agent, InstrumentationSettings, ModelRetry
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))

forecaster = Agent("openai:gpt-5", name="forecaster", instructions="You forecast the weather.")
guide = Agent("openai:gpt-5", name="guide", instructions="You guide visitors.")
planner = Agent("openai:gpt-5", name="planner", instructions="You plan trips.")


@forecaster.tool_plain
def get_weather(city: str) -> str:
    return {"Lisbon": "sun, 24 degrees", "Porto": "rain, 17 degrees"}[city]


@guide.tool_plain
def find_sights(city: str) -> str:
    return "castle, tram"


@guide.tool_plain
def book_tour(sight: str) -> str:
    raise ModelRetry("sold out")


@planner.tool_plain
async def ask_forecaster(input: str) -> str:
    return (await forecaster.run(input)).output


@planner.tool_plain
async def ask_guide(input: str) -> str:
    return (await guide.run(input)).output


print(planner.run_sync("Where to on Sunday?").output)
