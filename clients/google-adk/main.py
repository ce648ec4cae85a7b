import asyncio

from google.adk.agents import LlmAgent
from google.adk.models.anthropic_llm import AnthropicLlm
from google.adk.runners import InMemoryRunner
from google.adk.telemetry.setup import maybe_set_otel_providers
from google.adk.tools.agent_tool import AgentTool
from opentelemetry import trace

maybe_set_otel_providers()


def get_weather(city: str) -> str:
    """Tells the weather."""
    return {"Lisbon": "sun, 24 degrees", "Porto": "rain, 17 degrees"}[city]


def find_sights(city: str) -> str:
    """Finds sights."""
    return "castle, tram"


def book_tour(sight: str) -> str:
    """Books a tour."""
    raise RuntimeError("sold out")


def explain(tool, args, tool_context, error):
    return {"error": str(error)}


def agent(name, instruction, tools):
    model = AnthropicLlm(model="claude-sonnet-5")
    return LlmAgent(name=name, model=model, instruction=instruction, tools=tools, on_tool_error_callback=explain)


forecaster = agent("forecaster", "You forecast the weather.", [get_weather])
guide = agent("guide", "You guide visitors.", [find_sights, book_tour])
planner = agent("planner", "You plan trips.", [AgentTool(forecaster), AgentTool(guide)])

events = asyncio.run(InMemoryRunner(planner).run_debug("Where to on Sunday?", quiet=True))
print(events[-1].content.parts[0].text)
