// Rows of a tree stand in sections, one after the other. A section may be empty: then it stands for its rows, which are on the server.
export type Row = HTMLAnchorElement;
export type Item = HTMLElement; // a row, or an empty section

export const isRow = (item: Element | null | undefined): item is Row => item?.classList.contains("row") ?? false;
export const isEmpty = (section: Element): boolean => section.hasAttribute("data-from");
export const level = (item: Element): number => Number(item.getAttribute("aria-level") ?? item.getAttribute("data-level"));
export const folded = (row: Element): boolean => row.getAttribute("aria-expanded") === "false";
export const find = (id: string): Row | null => document.getElementById(id) as Row | null;

// scrolls reports whether a tree scrolls for itself. On narrow pages all scrolls.
export const scrolls = (tree: HTMLElement): boolean => getComputedStyle(tree).overflowY === "auto";

// edge returns the first item of a section, or the last.
export function edge(section: Element, last = false): Item | null {
  return (isEmpty(section) ? section : last ? section.lastElementChild : section.firstElementChild) as Item | null;
}

// beside returns the item behind one, or before it.
export function beside(item: Element, back = false): Item | null {
  const other = (e: Element): Element | null => (back ? e.previousElementSibling : e.nextElementSibling);
  let section: Element | null = item;
  if (isRow(item)) {
    const row = other(item);
    if (row) return row as Item;
    section = item.parentElement;
  }
  while ((section = section && other(section))) {
    const found = edge(section, back);
    if (found) return found;
  }
  return null;
}

// morph makes an element what another is, and leaves alone what is the same: what is marked there stays marked.
export function morph(old: Element, fresh: Element): void {
  const folds = old instanceof HTMLDetailsElement; // what is unfolded stays so, and what is folded
  for (const name of old.getAttributeNames()) if (!fresh.hasAttribute(name) && !(folds && name === "open")) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (!(folds && name === "open") && old.getAttribute(name) !== value) old.setAttribute(name, value);
  const had = [...old.childNodes];
  const has = [...fresh.childNodes];
  for (const [i, node] of has.entries()) {
    const same = had[i];
    if (!same) old.append(node);
    else if (same instanceof HTMLTimeElement && node instanceof HTMLTimeElement) {
      if (same.dateTime !== node.dateTime) same.replaceWith(node); // else it may be in the reader's zone
    }
    else if (same instanceof Element && node instanceof Element && same.tagName === node.tagName) morph(same, node);
    else if (same instanceof Text && node instanceof Text) {
      if (same.data !== node.data) same.data = node.data;
    } else same.replaceWith(node);
  }
  for (const node of had.slice(has.length)) node.remove();
}

// mark shows a row as folded or not.
export function mark(row: Element, open: boolean): void {
  row.setAttribute("aria-expanded", String(open));
  const sign = row.querySelector(".fold");
  if (sign) sign.textContent = open ? "▾" : "▸";
}
