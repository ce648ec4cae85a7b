"""A server made with the Python SDK of the protocol."""

import asyncio
import os

from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

server = FastMCP("python")


class Color(BaseModel):
    color: str


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Which color?", schema=Color)
    return answer.data.color if answer.action == "accept" else answer.action


@server.tool()
async def call_id(ctx: Context) -> str:
    return getattr(ctx.request_context.meta, "actlog/toolCallId")


@server.tool()
async def sleep() -> str:
    await asyncio.sleep(1000)
    return "slept"


@server.tool()
def pid() -> str:
    return str(os.getpid())


server.run()
