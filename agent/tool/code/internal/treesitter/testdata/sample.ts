import { readFile } from 'node:fs/promises';
import type { Logger } from './log';

export interface Line {
  sku: string;
  quantity: number;
  price?: number;
}

export class Order<T extends Line = Line> {
  private readonly lines: T[] = [];

  constructor(private readonly log: Logger, lines: readonly T[]) {
    this.lines.push(...lines.filter((line) => line.quantity > 0));
  }

  get size(): number {
    return this.lines.length;
  }

  due(discount?: number, strict = false): number {
    let total = 0;
    for (const line of this.lines) {
      total += (line.price ?? 0) * line.quantity;
    }
    if (strict && (this.size === 0 || total === 0)) {
      throw new Error(`nothing is due: ${this.size}`);
    } else if (discount) {
      total -= total * discount;
    }
    return total < 0 ? 0 : total;
  }
}

export const load = async (path: string, log: Logger): Promise<Order> => {
  try {
    const text = await readFile(path, 'utf8');
    // one a line
    return new Order(log, text.split('\n').map((line) => JSON.parse(line) as Line));
  } catch (err) {
    switch ((err as { code?: string }).code) {
      case 'ENOENT':
        log.warn('no orders');
        break;
      default:
        throw err;
    }
  }
  return new Order(log, []);
};
