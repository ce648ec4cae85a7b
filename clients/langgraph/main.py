from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain.tools import ToolException, tool
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LangChainInstrumentor().instrument(tracer_provider=provider)


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
    raise ToolException("sold out")


book_tour.handle_tool_error = True

forecaster = create_agent("openai:gpt-5", [get_weather], system_prompt="You forecast the weather.", name="forecaster")
guide = create_agent("openai:gpt-5", [find_sights, book_tour], system_prompt="You guide visitors.", name="guide")


def ask(agent, input):
    return agent.invoke({"messages": [("user", input)]})["messages"][-1].content


@tool
def ask_forecaster(input: str) -> str:
    """Asks about the weather."""
    return ask(forecaster, input)


@tool
def ask_guide(input: str) -> str:
    """Asks about sights."""
    return ask(guide, input)


streamed = init_chat_model("openai:gpt-5", streaming=True, stream_usage=True)
planner = create_agent(streamed, [ask_forecaster, ask_guide], system_prompt="You plan trips.", name="planner")

print(ask(planner, "Where to on Sunday?"))
