"""Lists the tools of Actlog and calls each once, with the Python SDK of the protocol: over HTTP, and over stdio.

The arguments are the address of the server and the program actlog. The answers are printed as JSON.
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

CALLS = {
    "find_runs": {"failed": True},
    "failures": {"planId": "night"},
    "read_run": {"planId": "night"},
    "read_step": {"planId": "night", "at": "step:night-s1"},
    "read_row": {"planId": "night", "at": "call:night-s1/0/night-c1"},
    "search": {"planId": "night", "text": "no space"},
    "sql": {"query": "SELECT state, count(*) FROM plan GROUP BY 1"},
    "describe_reports": {"view": "failure"},
}


async def ask(streams) -> dict:
    async with ClientSession(streams[0], streams[1]) as session:
        about = await session.initialize()
        answers = {"server": about.serverInfo.name, "tools": sorted(t.name for t in (await session.list_tools()).tools)}
        for name, arguments in CALLS.items():
            result = await session.call_tool(name, arguments)
            assert not result.isError, result
            assert json.loads(result.content[0].text) == result.structuredContent, result
            answers[name] = result.structuredContent
        wrong = await session.call_tool("read_run", {"planId": "none"})
        answers["wrong"] = [wrong.isError, wrong.content[0].text]
        return answers


async def main(server: str, actlog: str) -> None:
    async with streamablehttp_client(server + "/mcp") as streams:
        over_http = await ask(streams)
    async with stdio_client(StdioServerParameters(command=actlog, args=["mcp", "--server", server])) as streams:
        over_stdio = await ask(streams)
    print(json.dumps({"http": over_http, "stdio": over_stdio}))


asyncio.run(main(sys.argv[1], sys.argv[2]))
