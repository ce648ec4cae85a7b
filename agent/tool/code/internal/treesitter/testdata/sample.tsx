import React, { useState } from 'react';
import { Line } from './sample';

interface Props {
  lines: Line[];
  onPay?: (total: number) => void;
}

export function Orders({ lines, onPay }: Props) {
  const [open, setOpen] = useState<string | null>(null);
  const total = lines.reduce((sum, line) => sum + (line.price ?? 0) * line.quantity, 0);

  if (lines.length === 0) {
    return <p className="empty">Nothing is due.</p>;
  }
  return (
    <section>
      <ul>
        {lines.map((line) => (
          <li key={line.sku} onClick={() => setOpen(line.sku)}>
            {line.sku}: {line.quantity}
            {open === line.sku && <em> {line.price}</em>}
          </li>
        ))}
      </ul>
      <button disabled={total === 0} onClick={() => onPay?.(total)}>
        Pay {total.toFixed(2)}
      </button>
    </section>
  );
}
