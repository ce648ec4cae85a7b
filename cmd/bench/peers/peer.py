"""How the benchmark speaks with a program that runs agents: it reads commands from standard input, a line each, and
writes an answer as a line of JSON. When there are no more commands, the program ends."""

import asyncio
import itertools
import json
import os
import sys
import time
from importlib.metadata import version

CYCLES = 10  # how often an agent thinks and then calls a tool
database = os.environ["PEER_DATABASE"]

with open(os.environ["PEER_SCRIPT"]) as script:
    _script = json.load(script)
_answers = itertools.cycle(_script["answers"])
_results = itertools.cycle(_script["results"])
_first_call = None


def think():
    """The call of a model."""
    global _first_call
    if _first_call is None:
        _first_call = time.perf_counter()
    return next(_answers)


def look():
    """The call of a tool."""
    return next(_results)


def _bare():
    return [text for _ in range(CYCLES) for text in (think(), look())]


def _answer(value):
    print(json.dumps(value), flush=True)


async def serve(package, run):
    """Does what the benchmark commands. run runs an agent until its end is durable; runs are made at the same time."""
    global _first_call
    _answer({"version": version(package)})
    nth = itertools.count()
    while line := await asyncio.to_thread(sys.stdin.readline):
        what, runs = line.split()
        start, _first_call = time.perf_counter(), None
        if what == "bare":
            for _ in range(int(runs)):
                _bare()
        else:
            await asyncio.gather(*(run(f"{os.getpid()}-{next(nth)}") for _ in range(int(runs))))
        _answer({"took": time.perf_counter() - start, "first": _first_call - start})
