import asyncio

from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool


@tool("get_weather", "Tells the weather.", {"city": str})
async def get_weather(args):
    return say({"Lisbon": "sun, 24 degrees", "Porto": "rain, 17 degrees"}[args["city"]])


@tool("find_sights", "Finds sights.", {"city": str})
async def find_sights(args):
    return say("castle, tram")


@tool("book_tour", "Books a tour.", {"sight": str})
async def book_tour(args):
    return {**say("sold out"), "is_error": True}


def say(text):
    return {"content": [{"type": "text", "text": text}]}


def agent(description, prompt, *tools):
    return AgentDefinition(description=description, prompt=prompt, tools=[f"mcp__trip__{name}" for name in tools])


options = ClaudeAgentOptions(
    model="claude-sonnet-5",
    system_prompt="You plan trips.",
    agents={
        "forecaster": agent("Knows the weather.", "You forecast the weather.", "get_weather"),
        "guide": agent("Knows the sights.", "You guide visitors.", "find_sights", "book_tour"),
    },
    mcp_servers={"trip": create_sdk_mcp_server("trip", tools=[get_weather, find_sights, book_tour])},
    allowed_tools=["Agent", "mcp__trip"],
    setting_sources=[],
)


async def main():
    async for message in query(prompt="Where to on Sunday?", options=options):
        if isinstance(message, ResultMessage):
            print(message.result)


asyncio.run(main())
