"""Orders, and what is due."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from decimal import Decimal

log = logging.getLogger(__name__)


@dataclass
class Line:
    sku: str
    quantity: int
    price: Decimal = Decimal("0")

    def total(self) -> Decimal:
        return self.price * self.quantity


@dataclass
class Order:
    lines: list[Line] = field(default_factory=list)
    discount: Decimal | None = None

    def due(self, *, rounded: bool = True, **options) -> Decimal:
        total = sum((line.total() for line in self.lines if line.quantity > 0), Decimal(0))
        if self.discount and total > 100:
            total -= total * self.discount
        elif options.get("strict") or not self.lines:
            raise ValueError(f"nothing is due: {options!r}")
        # cents
        return total.quantize(Decimal("0.01")) if rounded else total


async def load(path: str) -> Order:
    order = Order()
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                match line.split(";"):
                    case [sku, quantity, price]:
                        order.lines.append(Line(sku, int(quantity), Decimal(price)))
                    case _:
                        log.warning("line %d is skipped", number)
    except OSError as err:
        log.error("no orders: %s", err)
    return order
