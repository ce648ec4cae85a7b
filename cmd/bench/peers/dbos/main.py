"""Runs agents on DBOS, for the benchmark."""

import asyncio
import os
import sys

from dbos import DBOS, SetWorkflowID

sys.path.append(os.path.join(os.path.dirname(__file__), ".."))
import peer


@DBOS.step()
async def think():
    return peer.think()


@DBOS.step()
async def look():
    return peer.look()


@DBOS.workflow()
async def agent(request):
    """Thinks and calls a tool. Each is a step, whose result is on record before the next."""
    talk = [request]
    for _ in range(peer.CYCLES):
        talk.append(await think())
        talk.append(await look())
    return "done"


async def run(plan):
    with SetWorkflowID(plan):
        handle = await DBOS.start_workflow_async(agent, "Go on.")
    await handle.get_result()


async def main():
    DBOS(config={"name": "bench", "system_database_url": peer.database, "log_level": "ERROR"})
    DBOS.launch()
    try:
        await peer.serve("dbos", run)
    finally:
        DBOS.destroy()


asyncio.run(main())
