import React from 'react';

export default function Shop({ items }: { items: string[] }) {
  const [open, setOpen] = React.useState(false);
  const Row = ({ name }: { name: string }) => <li>{name || 'none'}</li>;
  return (
    <ul onClick={() => {
      if (!open) {
        setOpen(true);
      }
    }}>
      {open && items.map((i) => <Row key={i} name={i} />)}
    </ul>
  );
}
