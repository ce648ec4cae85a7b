package com.example.shop;

import static com.example.stock.Stock.find;
import com.example.stock.Item;
import com.example.text.*;
import java.util.List;

/** A shop,
 * with one of each. */
public class Shop<T extends Item> implements Runnable {
    private final Runnable later = () -> { if (true) { run(); } };

    public Shop() { super(); }

    interface Price { int of(Item item, int count); default int one(Item i) { return of(i, 1); } }

    record Line(String name, int count) {
        Line {
            if (count < 0) throw new IllegalArgumentException(); // compact
        }
    }

    enum Kind { A, B; static Kind of(int n) { return n == 0 ? A : B; } }

    @Override
    public void run() {
        for (int i = 0; i < 3 && i != 2; i++) {
            for (String s : List.of("if", "&&")) {
                while (s.isEmpty() || i > 1) {
                    do { i--; } while (i > 0);
                }
            }
        }
        new Thread(() -> {
            synchronized (this) { notifyAll(); }
        }).start();
        try { wait(); } catch (InterruptedException | RuntimeException e) { return; } finally { i(); }
    }

    abstract int none();

    static int kind(Object o, String... rest) {
        switch (rest.length) {
            case 0: return 0;
            case 1: case 2: return 1;
            default: break;
        }
        return switch (o) {
            case String s when s.isEmpty() -> 1;
            case Integer i -> 2;
            default -> 3;
        };
    }
}
