import fs from 'fs';
import type { Item } from './stock.js';
import './side';
import util = require('../util');
export * from "./lib";
const lazy = require('./lazy');

/* A shop,
   with one of each. */
export abstract class Shop<T extends Item> {
  handler = async (a: T, b?: T) => a ?? b; // after code

  constructor(private readonly items: T[]) {}

  abstract open(): void;

  get size() { return this.items.length; }

  price(this: Shop<T>, item: T, count = 1, ...rest: number[]): number {
    if (count < 0 || !item) {
      throw new Error('if && ||');
    } else if (count > 10) {
      for (const i of rest) {
        while (i) {
          do { count--; } while (count);
        }
      }
    } else {
      this.items.forEach((each) => {
        if (each) count &&= 2;
      });
    }
    switch (count) {
      case 1:
      case 2:
        return 1;
      default:
        try { return 2; } catch { return count ? 3 : 4; }
    }
  }
}

export function* all(n: number) { yield n; }

namespace deep {
  export const one = function () { return <number>1; };
}

const table = { run: x => x, go() { return 1; } };

exports.main = async function () {
  const { x } = await import('./later');
  return x?.y;
};

test('anonymous', () => {
  expect(1);
});
