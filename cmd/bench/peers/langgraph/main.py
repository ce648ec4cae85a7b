"""Runs agents on LangGraph with its Postgres checkpointer, for the benchmark."""

import asyncio
import operator
import os
import sys
from typing import Annotated, TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

sys.path.append(os.path.join(os.path.dirname(__file__), ".."))
import peer


class State(TypedDict):
    talk: Annotated[list[str], operator.add]


async def think(state: State):
    return {"talk": [peer.think()]}


async def look(state: State):
    return {"talk": [peer.look()]}


def more(state: State):
    return "think" if len(state["talk"]) <= 2 * peer.CYCLES else END


async def main():
    """Each node is a call, whose checkpoint is on record before the next (durability "sync")."""
    graph = StateGraph(State)
    graph.add_node(think)
    graph.add_node(look)
    graph.add_edge(START, "think")
    graph.add_edge("think", "look")
    graph.add_conditional_edges("look", more, ["think", END])

    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(peer.database, min_size=10, max_size=10, kwargs=options) as pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        agent = graph.compile(checkpointer=saver)

        async def run(plan):
            config = {"configurable": {"thread_id": plan}, "recursion_limit": 100}
            await agent.ainvoke({"talk": ["Go on."]}, config, durability="sync")

        await peer.serve("langgraph", run)


asyncio.run(main())
