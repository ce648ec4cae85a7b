import asyncio

import mlflow
from agents import Agent, Runner, function_tool

mlflow.openai.autolog()


@function_tool
def get_weather(city: str) -> str:
    return {"Lisbon": "sun, 24 degrees", "Porto": "rain, 17 degrees"}[city]


@function_tool
def find_sights(city: str) -> str:
    return "castle, tram"


@function_tool
def book_tour(sight: str) -> str:
    raise RuntimeError("sold out")


forecaster = Agent("forecaster", instructions="You forecast the weather.", model="gpt-5", tools=[get_weather])
guide = Agent("guide", instructions="You guide visitors.", model="gpt-5", tools=[find_sights, book_tour])
planner = Agent(
    "planner",
    instructions="You plan trips.",
    model="gpt-5",
    tools=[forecaster.as_tool("ask_forecaster", "Asks about the weather."), guide.as_tool("ask_guide", "Asks about sights.")],
)

print(asyncio.run(Runner.run(planner, "Where to on Sunday?")).final_output)
