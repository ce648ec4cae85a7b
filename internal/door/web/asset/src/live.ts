import { loggedOut, LoggedOut } from "./fragment";
import { beside, find, folded, isEmpty, isRow, level, mark, morph, scrolls, type Item, type Row } from "./rows";
import { listen } from "./stream";

const sectionRows = 100;
const keptFor = 10_000; // the server may make sections of what was on record so long ago
const quiet = 10_000; // who listens to the page is told at most so often

// Live is a run that is followed.
export interface Live {
  // filled says that rows came that may be older than what was told since.
  filled(rows: Set<string>): void;
}

// follow keeps the rows of a run as they are on record. A row changes in its place. Focus, selection, folds and what is looked
// at stay as they are.
export function follow(tree: HTMLElement, ask: (piece: string, more: Record<string, string>) => Promise<DocumentFragment>, changed: (ids: Set<string>) => void): Live {
  const waiting = new Set<string>(); // rows that changed
  const told = new Map<string, number>(); // when rows were brought
  // Rows whose place is not known yet, with what is before them, the nearest first: that is on its way, or in an empty section.
  const missing = new Map<string, string[]>();
  let busy = false;

  // patch brings what waits. Then it rests half as long as that took, and collects what is next.
  async function patch(): Promise<void> {
    if (busy || waiting.size === 0) return;
    busy = true;
    const began = Date.now();
    let pause = 20;
    const ids: string[] = [];
    let length = 0; // of the address: proxies take 8 kB
    for (const id of waiting) {
      length += encodeURIComponent(id).length + 3;
      if (ids.length > 0 && (length > 6000 || ids.length === sectionRows)) break;
      ids.push(id);
      waiting.delete(id);
    }
    try {
      const piece = await ask("patch", { rows: ids.join(" ") });
      const head = document.getElementById("head");
      const newHead = piece.querySelector(".new-head");
      if (head && newHead) {
        const top = tree.offsetTop;
        newHead.removeAttribute("class");
        newHead.id = head.id;
        morph(head, newHead);
        if (scrolls(tree)) tree.scrollTop += tree.offsetTop - top; // what is looked at stays where it is
      }
      const view = (scrolls(tree) ? tree : document.scrollingElement) as Element;
      const followed = view.scrollTop > 0 && view.scrollTop + view.clientHeight >= view.scrollHeight - 40;
      for (const holder of piece.querySelectorAll<HTMLElement>(".new-row")) place(holder);
      for (const [id, when] of told) if (began - when > 2 * keptFor) told.delete(id);
      if (unnumbered.size > 0) again();
      number(unnumbered);
      unnumbered.clear();
      if (followed) view.scrollTop = view.scrollHeight;
      changed(new Set(ids));
    } catch (error) {
      if (error instanceof LoggedOut) return stream.end(...loggedOut());
      for (const id of ids) waiting.add(id); // they are asked for again
      pause = 2000;
    }
    setTimeout(() => { busy = false; void patch(); }, Math.max(pause, (Date.now() - began) / 2));
  }

  // place puts a row where it belongs, or renews it.
  function place(holder: HTMLElement): void {
    const fresh = holder.firstElementChild as Row;
    const old = find(fresh.id);
    told.delete(fresh.id); // so that the oldest stand first
    told.set(fresh.id, Date.now());
    missing.delete(fresh.id);
    const after = (holder.dataset.after ?? "").split(" ");
    const over = after.at(-1) ?? ""; // what it is under stands last
    if (!old || grown.has(over)) grown.set(over, fresh.getAttribute("aria-setsize") ?? "");
    if (old) return renew(old, fresh);
    fresh.setAttribute("tabindex", "-1");
    fresh.setAttribute("aria-selected", "false");
    fresh.classList.remove("at");
    if (fresh.hasAttribute("aria-expanded")) mark(fresh, true); // what is under it comes, too
    const up = find(over);
    if (up && folded(up) && !isUnder(beside(up), up)) return; // it comes when that is unfolded
    let behind = spot(after);
    if (behind && behind.id !== after[0]) { // it is behind what is under that, too
      let item = beside(behind);
      for (; item && level(item) > level(fresh); item = beside(item)) behind = item;
      if (item && !isRow(item)) behind = null; // or in there
    }
    if (!behind) {
      missing.set(fresh.id, after);
      return;
    }
    fresh.hidden = up ? up.hidden || folded(up) : behind.hidden;
    insert(fresh, behind);
    unnumbered.add(over);
    if (!fresh.hidden) watch.observe(fresh);
  }
  const isUnder = (item: Item | null, row: Row): boolean => item !== null && level(item) > level(row);

  // spot returns the nearest row of those before one. What it is under says nothing, unless it is the first there.
  function spot(after: string[]): Item | null {
    for (const [i, id] of after.entries()) if (i === 0 || i < after.length - 1) {
      const row = find(id);
      if (row) return row;
    }
    return null;
  }

  // again asks for rows whose place is known now, and those behind them.
  function again(): void {
    const next = new Map<string, string>(); // which row a row is before
    for (const [id, after] of missing) {
      if (after[0]) next.set(after[0], id);
      if (!spot(after)) continue;
      waiting.add(id);
    }
    for (const id of waiting) {
      const behind = next.get(id);
      if (behind) waiting.add(behind); // the loop comes to it, too
    }
  }

  // renew makes a row what it is now, but for what the reader did to it.
  function renew(old: Row, fresh: Row): void {
    for (const name of ["tabindex", "aria-selected", "hidden"]) {
      const value = old.getAttribute(name);
      if (value === null) fresh.removeAttribute(name);
      else fresh.setAttribute(name, value);
    }
    fresh.classList.toggle("at", old.getAttribute("aria-selected") === "true");
    if (fresh.hasAttribute("aria-expanded")) mark(fresh, !folded(old));
    morph(old, fresh);
  }

  // insert puts a row behind an item. Sections stay short.
  function insert(fresh: Row, behind: Item): void {
    const section = isRow(behind) ? behind.parentElement : behind;
    if (!section) return;
    const atEnd = !isRow(behind) || !behind.nextElementSibling;
    if (atEnd && (!isRow(behind) || section.childElementCount >= sectionRows)) {
      const next = section.nextElementSibling;
      if (next && !isEmpty(next) && next.childElementCount < sectionRows) next.prepend(fresh);
      else section.after(own(fresh));
      return;
    }
    behind.after(fresh);
    if (section.childElementCount <= 2 * sectionRows) return;
    const rest: Element[] = [];
    for (let row = fresh.nextElementSibling; row; row = row.nextElementSibling) rest.push(row);
    if (!rest.includes(document.activeElement as Element)) section.after(own(...rest));
  }
  function own(...rows: Element[]): Element {
    const section = document.createElement("div");
    section.className = "section";
    section.setAttribute("role", "presentation");
    section.append(...rows);
    return section;
  }

  // number counts the rows under some that have new ones.
  const grown = new Map<string, string>(); // how many rows there are under a row
  const unnumbered = new Set<string>();
  function number(which: Iterable<string>): void {
    for (const id of which) {
      const up = find(id);
      let place = 0;
      for (let item = up && beside(up); up && item && level(item) > level(up); item = beside(item)) {
        if (!isRow(item)) place = NaN; // how many are there is not known
        else if (level(item) === level(up) + 1) {
          item.setAttribute("aria-setsize", grown.get(id) ?? "");
          if (++place) item.setAttribute("aria-posinset", String(place));
        }
      }
    }
  }

  // New rows that are not seen are counted, until they are.
  const unseen = new Set<Element>();
  const more = document.createElement("button");
  more.type = "button";
  more.className = "unseen";
  more.hidden = true;
  const spoken = document.createElement("p");
  spoken.className = "away";
  spoken.setAttribute("role", "status");
  document.body.append(more, spoken);
  let said = 0;
  function show(): void {
    for (const row of unseen) if (!row.isConnected || (row as Row).hidden) unseen.delete(row);
    more.hidden = unseen.size === 0;
    if (more.hidden) return;
    const [first] = unseen;
    more.textContent = `${unseen.size} new ${first && first.getBoundingClientRect().top < 0 ? "↑" : "↓"}`;
    if (Date.now() - said < quiet) return;
    said = Date.now();
    spoken.textContent = `${unseen.size} new rows`;
  }
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) {
        unseen.add(target);
        continue;
      }
      unseen.delete(target);
      watch.unobserve(target);
    }
    show();
  });
  more.addEventListener("click", () => {
    const [row] = unseen;
    row?.scrollIntoView({ block: "center" });
  });

  const stream = listen(tree.dataset.events ?? "", (type, data) => {
    switch (type) {
      case "rows":
        for (const row of (data as { rows: { at: string }[] }).rows) waiting.add(row.at);
        break;
      case "reset":
        for (const row of tree.querySelectorAll(".row")) waiting.add(row.id);
        break;
      case "deleted": {
        waiting.clear();
        const note = document.createElement("p");
        note.setAttribute("role", "alert");
        note.textContent = "This run was deleted from the record. What you see is the last of it.";
        document.getElementById("head")?.before(note);
      }
    }
    void patch();
  });

  function filled(rows: Set<string>): void {
    const now = Date.now();
    for (const [id, when] of told) if (now - when < 2 * keptFor && (rows.has(id) || !find(id))) waiting.add(id);
    again();
    void patch();
    clearTimeout(later);
    later = window.setTimeout(() => number(grown.keys()), 500);
  }
  let later = 0;
  return { filled };
}
