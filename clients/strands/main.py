from strands import Agent, tool
from strands.models.openai import OpenAIModel
from strands.telemetry import StrandsTelemetry

StrandsTelemetry().setup_otlp_exporter()


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


def agent(name, instructions, tools):
    return Agent(name=name, model=OpenAIModel(model_id="gpt-5"), system_prompt=instructions, tools=tools, callback_handler=None)


forecaster = agent("forecaster", "You forecast the weather.", [get_weather])
guide = agent("guide", "You guide visitors.", [find_sights, book_tour])


planner = agent("planner", "You plan trips.", [forecaster.as_tool(name="ask_forecaster"), guide.as_tool(name="ask_guide")])

print(planner("Where to on Sunday?"))
