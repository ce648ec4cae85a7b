package com.example.orders;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;

/** Orders, and what is due. */
public final class Sample {
    private final List<Line> lines = new ArrayList<>();

    public record Line(String sku, int quantity, BigDecimal price) {
        BigDecimal total() {
            return price.multiply(BigDecimal.valueOf(quantity));
        }
    }

    public Sample(List<Line> lines) {
        this.lines.addAll(lines);
    }

    public BigDecimal due(boolean strict, BigDecimal discount) throws IllegalStateException {
        BigDecimal total = BigDecimal.ZERO;
        for (Line line : lines) {
            if (line.quantity() <= 0) {
                continue;
            }
            total = total.add(line.total());
        }
        if (strict && (lines.isEmpty() || total.signum() == 0)) {
            throw new IllegalStateException("nothing is due");
        } else if (discount != null) {
            total = total.subtract(total.multiply(discount));
        }
        return total.signum() < 0 ? BigDecimal.ZERO : total;
    }

    static String kind(int quantity) {
        return switch (quantity) {
            case 0 -> "none";
            case 1, 2, 3 -> "few";
            default -> "many";
        };
    }
}
