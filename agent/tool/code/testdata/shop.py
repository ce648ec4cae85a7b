"""A shop, with one of each."""

from __future__ import annotations

import os, sys
import json as js
from . import stock
from .stock import (
    Item,
    find as look,
)
from ..common.text import *

LIMIT = 10 if os.environ.get("LIMIT") else 20  # of no function


class Shop:
    """Sells."""

    class Basket:
        def __init__(self, *items: Item, **options) -> None:
            self.items = [i for i in items if i]

    @staticmethod
    def price(item, /, count: int = 1, *, vat=True):
        # if this and that
        if count < 0 or count > LIMIT:
            raise ValueError("if and or")
        elif not vat:
            return 0
        else:
            for n in range(count):
                while n and n > 3:
                    with open(item) as f:
                        try:
                            n -= int(f.read())
                        except (OSError, ValueError):
                            pass
        return 1 if vat else 2

    async def sell(self, item):
        def receipt(total):
            return f"{total}" if total else ""

        match item:
            case Item(name="x"):
                return receipt(1)
            case [a, b] if a:
                return receipt(2)
            case _:
                return None


double = lambda x: x and 2 * x
