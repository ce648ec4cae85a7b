import { choose, openDetail, show as showDetail } from "./detail";
import { Folds } from "./folds";
import { fragment } from "./fragment";
import { copy, type Key } from "./keys";
import { follow } from "./live";
import { came, neighbour } from "./neighbour";
import { beside, edge, find, folded, isEmpty, isRow, level, mark, scrolls, type Item, type Row } from "./rows";
import { say } from "./say";

const mostFilled = 100; // sections, without being near: those of 10,000 rows

// openTree makes a tree of rows usable by keyboard, opens details in place, and folds. It returns the keys for that.
export function openTree(tree: HTMLElement): Key[] {
  const at = (): Row | null => tree.querySelector<Row>("[aria-selected=true]");
  const failures = (): string[] => (document.querySelector<HTMLElement>("[data-failures]")?.dataset.failures ?? "").split(" ").filter(Boolean);

  // ask asks for a piece of this page.
  function ask(name: string, more: Record<string, string> = {}, signal?: AbortSignal): Promise<DocumentFragment> {
    const now = new URLSearchParams(location.search);
    const query = new URLSearchParams({ at: at()?.id ?? "" });
    for (const kept of ["root", "fold"]) if (now.has(kept)) query.set(kept, now.get(kept) ?? "");
    for (const [key, value] of Object.entries(more)) query.set(key, value);
    return fragment(`${location.pathname}/${name}?${query}`, signal);
  }

  // select opens the detail of a row. Back leaves the run: the address is replaced.
  let timer = 0;
  function select(row: Row): void {
    for (const old of tree.querySelectorAll("[aria-selected=true]")) {
      old.setAttribute("aria-selected", "false");
      old.classList.remove("at");
      old.setAttribute("tabindex", "-1");
    }
    row.setAttribute("aria-selected", "true");
    row.classList.add("at");
    row.setAttribute("tabindex", "0");
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    count();
    choose(true);
    clearTimeout(timer); // who holds a key down sees the detail where it ends
    timer = window.setTimeout(() => {
      history.replaceState(null, "", row.href);
      void show();
    }, 40);
  }

  // count says which failure is open.
  function count(): void {
    const line = document.querySelector(".count");
    const all = failures();
    const here = all.indexOf(at()?.id ?? "");
    if (line) line.textContent = here >= 0 ? `${here + 1} of ${all.length}` : all.length === 1 ? "1 failure" : `${all.length} failures`;
  }

  // show brings the detail of the open row, looked at as the address says, if it is of that row.
  function show(): Promise<void> {
    const now = new URLSearchParams(location.search);
    const looks: Record<string, string> = {};
    for (const name of ["q", "show", "cursor"]) now.delete(name); // of a list beside it
    if (tree.hidden || now.get("at") === at()?.id) for (const [name, value] of now) looks[name] = value;
    return showDetail((signal) => ask("detail", looks, signal));
  }

  // adopt makes rows that came from the server part of the tree. One that is there already is not taken twice.
  function adopt(piece: ParentNode): Element[] {
    for (const row of piece.querySelectorAll<Row>(".row")) {
      const chosen = row.getAttribute("aria-selected") === "true";
      row.setAttribute("tabindex", chosen ? "0" : "-1");
      if (find(row.id) && find(row.id) !== row) row.remove();
    }
    const sections = [...piece.children].filter((section) => section.firstElementChild || isEmpty(section));
    for (const section of sections) if (isEmpty(section)) near.observe(section);
    return sections;
  }

  // idsIn returns the rows that a piece has.
  const idsIn = (piece: ParentNode): Set<string> => new Set(Array.from(piece.querySelectorAll(".row"), (row) => row.id));

  // arrived says that rows came from the server. Those that the reader folded or unfolded are so again, but for what the open row is under.
  const how = (): string => new URLSearchParams(location.search).get("fold") ?? "";
  let folds = new Folds(tree.dataset.run ?? "", how());
  async function arrived(ids: Set<string>): Promise<void> {
    live?.filled(ids);
    for (const [id, open] of folds.of(ids)) {
      const row = find(id);
      if (row && folded(row) === open && (open || !(await holds(row, at()?.id ?? "")))) await fold(row, open);
    }
  }

  // fill brings the rows of an empty section. It returns the sections that took its place; none if that failed.
  const fills = new WeakMap<Element, Promise<Element[]>>();
  function fill(section: HTMLElement): Promise<Element[]> {
    const begun = fills.get(section);
    if (begun) return begun;
    const filling = fragment(section.dataset.from ?? "").then((piece) => {
      const sections = adopt(piece);
      if (section.hidden) for (const item of piece.querySelectorAll<HTMLElement>(".row, [data-from]")) item.hidden = true;
      const rows = idsIn(piece);
      section.replaceWith(...sections);
      void arrived(rows);
      return sections;
    }, () => {
      fills.delete(section); // it is tried again
      return [];
    });
    fills.set(section, filling);
    return filling;
  }

  // fillAll fills the rest when there is nothing else to do, so that the browser's own search finds it; of more rows than a tab should
  // hold, none.
  let filling = false;
  async function fillAll(): Promise<void> {
    if (filling || tree.querySelectorAll("[data-from]").length > mostFilled) return;
    filling = true;
    for (let n = 0; n < mostFilled; n++) {
      await new Promise((done) => requestIdleCallback(done));
      const section = tree.querySelector<HTMLElement>("[data-from]");
      if (!section) break;
      await fill(section);
    }
    filling = false;
  }

  // into fills an empty section, and returns the first item that took its place, or the last. It may have none: then the one beyond it.
  async function into(section: Item, last: boolean): Promise<Item | null> {
    const beyond = beside(section, last);
    const sections = await fill(section);
    const taken = last ? sections.at(-1) : sections[0];
    return taken ? edge(taken, last) : section.isConnected ? null : beyond;
  }

  // seen returns the first row from an item on that is not folded away. Sections on the way are filled.
  async function seen(item: Item | null | undefined, back = false): Promise<Row | null> {
    while (item) {
      if (isRow(item) && !item.hidden) return item;
      if (isRow(item) || item.hidden) {
        item = beside(item, back);
        continue;
      }
      item = await into(item, back);
    }
    return null;
  }

  // above returns the row that one is under.
  async function above(row: Row): Promise<Row | null> {
    let item = beside(row, true);
    while (item && (isRow(item) ? level(item) >= level(row) : true)) {
      if (isRow(item) || level(item) >= level(row)) {
        item = beside(item, true);
        continue;
      }
      item = await into(item, true);
    }
    return item as Row | null;
  }

  // fold folds a row or unfolds it. Rows that never were on the page come from the server.
  async function fold(row: Row, open = folded(row)): Promise<void> {
    if (!row.hasAttribute("aria-expanded") || open !== folded(row)) return;
    mark(row, open);
    folds.note(row.id, open);
    const first = beside(row);
    if (open && (!first || level(first) <= level(row))) {
      try {
        put(row, await ask("rows", { under: row.id }));
      } catch (error) {
        mark(row, false);
        say((error as Error).message);
      }
      return;
    }
    let shut = open ? Infinity : level(row); // how deep the folded row above is
    let last: Element = row;
    for (let item = beside(row); item; item = beside(last)) {
      if (!isRow(item) && level(item) <= level(row)) { // the first of its rows may be under this one
        await fill(item);
        if (item.isConnected) break;
        continue;
      }
      if (level(item) <= level(row)) break;
      if (level(item) <= shut) shut = open ? Infinity : level(row);
      item.hidden = level(item) > shut;
      if (!item.hidden && folded(item)) shut = level(item);
      last = item;
    }
    if (at()?.hidden) select(row);
  }

  // put puts the rows under a row, in sections, behind it.
  function put(row: Row, piece: DocumentFragment): void {
    const sections = adopt(piece);
    const section = row.parentElement;
    if (!section) return;
    const rows = idsIn(piece);
    const only = sections[0];
    if (sections.length === 1 && only && !isEmpty(only)) row.after(...only.childNodes);
    else {
      const held = document.activeElement;
      const rest = section.cloneNode(false) as Element;
      while (row.nextSibling) rest.append(row.nextSibling);
      section.after(...sections, ...(rest.firstChild ? [rest] : []));
      if (rest.contains(held)) (held as HTMLElement).focus({ preventScroll: true });
    }
    void arrived(rows);
  }

  // redraw brings the whole tree, with a row open in it.
  async function redraw(id: string, how?: string): Promise<void> {
    const piece = await ask("tree", how === undefined ? { at: id } : { at: id, fold: how });
    const held = tree.contains(document.activeElement);
    tree.replaceChildren(...piece.childNodes);
    adopt(tree);
    const row = at();
    if (row) history.replaceState(null, "", row.href);
    if (held) row?.focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest" });
    void arrived(idsIn(tree));
    void fillAll();
  }

  // foldAll folds the whole tree in one of the ways that the server knows.
  async function foldAll(way: string): Promise<void> {
    try {
      folds = new Folds(tree.dataset.run ?? "", way);
      folds.forget();
      await redraw(at()?.id ?? "", way);
    } catch (error) {
      say((error as Error).message);
    }
  }

  // reveal goes to a row, wherever it is. What is above it is unfolded.
  async function reveal(id: string): Promise<void> {
    try {
      if (!find(id)) {
        for (const { firstElementChild: path } of (await ask("patch", { rows: id })).querySelectorAll(".new-row")) {
          const row = path && find(path.id);
          if (row && folded(row)) await fold(row, true);
        }
      }
      if (!find(id)) {
        const all = [...tree.querySelectorAll<Row>("[aria-expanded]")].map((row) => [row.id, folded(row)] as const);
        await redraw(id);
        for (const [old, shut] of all) {
          const row = find(old);
          if (row && folded(row) !== shut && !(shut && (await holds(row, id)))) await fold(row, !shut);
        }
      }
      const row = find(id);
      if (!row) return say("The row is not on record any more.");
      const path: Row[] = [];
      for (let r = await above(row); r; r = await above(r)) path.unshift(r);
      for (const r of path) if (folded(r)) await fold(r, true);
      select(row);
    } catch (error) {
      say((error as Error).message);
    }
  }

  // holds reports whether a row is above another.
  async function holds(row: Row, id: string): Promise<boolean> {
    for (let r = find(id); r; r = await above(r)) if (r === row) return true;
    return false;
  }

  // failure goes to the next failure, or the one before. It comes round again.
  async function failure(step: number): Promise<void> {
    const all = failures();
    const here = all.indexOf(at()?.id ?? "");
    const to = all[here < 0 ? 0 : (here + step + all.length) % all.length];
    if (to) await reveal(to);
    else say("Nothing failed.");
  }

  async function go(row: Promise<Row | null>): Promise<void> {
    const to = await row;
    if (to) select(to);
  }
  const move = (row: Row, back: boolean): Promise<void> => go(seen(beside(row, back), back));

  async function sideways(row: Row, open: boolean): Promise<void> {
    if (row.hasAttribute("aria-expanded") && folded(row) === open) await fold(row, open);
    else if (!open) await go(above(row));
    else if (row.hasAttribute("aria-expanded")) await move(row, false);
  }

  async function siblings(row: Row): Promise<void> {
    const up = await above(row);
    for (let item = up && beside(up); item && (isRow(item) ? level(item) >= level(row) : false); item = beside(item)) {
      if (isRow(item) && level(item) === level(row)) await fold(item, true);
    }
  }

  const onRow = (act: (row: Row) => unknown) => (): unknown => {
    const row = at();
    return row && act(row);
  };
  const keys: Key[] = [
    { keys: ["ArrowDown", "j"], does: "the row below", act: onRow((row) => move(row, false)) },
    { keys: ["ArrowUp", "k"], does: "the row above", act: onRow((row) => move(row, true)) },
    { keys: ["Home"], does: "the first row", act: () => go(seen(tree.firstElementChild && edge(tree.firstElementChild))) },
    { keys: ["End"], does: "the last row", act: () => go(seen(tree.lastElementChild && edge(tree.lastElementChild, true), true)) },
    { keys: ["ArrowRight"], does: "unfold the row, or go to what is under it", act: onRow((row) => sideways(row, true)) },
    { keys: ["ArrowLeft"], does: "fold the row, or go to what it is under", act: onRow((row) => sideways(row, false)) },
    { keys: ["f"], does: "fold or unfold the row", act: onRow((row) => fold(row)) },
    { keys: ["F"], does: "fold or unfold everything", act: () => foldAll(tree.querySelector("[aria-expanded=false]") ? "none" : "all") },
    { keys: ["*"], does: "unfold the rows beside this one", act: onRow(siblings) },
    { keys: ["e"], does: "the next failure", act: () => failure(1) },
    { keys: ["E"], does: "the failure before", act: () => failure(-1) },
    { keys: ["r"], does: "the newest step that runs", act: () => {
      const newest = document.querySelector<HTMLElement>("[data-newest]")?.dataset.newest;
      return newest ? reveal(newest) : say("Nothing runs.");
    } },
    { keys: ["["], does: "the run above in the list", act: () => neighbour(tree, -1) },
    { keys: ["]"], does: "the run below in the list", act: () => neighbour(tree, 1) },
    { keys: ["c"], does: "copy the link of the row", act: onRow((row) => copy(row.href).then(() => say("The link is copied."), () => say("The browser does not let the link be copied."))) },
  ];

  tree.addEventListener("click", (event) => {
    const target = event.target as HTMLElement;
    const row = target.closest<Row>(".row");
    if (!row || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.button !== 0) return;
    event.preventDefault();
    if (target.closest(".fold")) void fold(row);
    else select(row);
  });
  // Links beside the tree fold it, or lead to rows of it.
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest<HTMLAnchorElement>("[data-fold], .path a, .calls a, .below a, .dag a");
    if (!link || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || tree.hidden) return;
    const id = new URL(link.getAttribute("href") ?? "", location.href).searchParams.get("at");
    const way = link.dataset.fold;
    if (way === undefined && !id) return;
    event.preventDefault();
    void (way === undefined ? reveal(id ?? "") : foldAll(way));
  });

  tree.addEventListener("reveal", (event) => void reveal((event as CustomEvent<string>).detail));
  tree.addEventListener("seen", () => void show());

  const near = new IntersectionObserver((entries) => {
    for (const e of entries) if (e.isIntersecting) void fill(e.target as HTMLElement);
  }, { root: scrolls(tree) ? tree : null, rootMargin: "2000px" });
  const live = tree.dataset.events ? follow(tree, ask, (ids) => {
    const row = at();
    const marked = getSelection();
    const reads = marked && !marked.isCollapsed && document.querySelector(".detail")?.contains(marked.anchorNode);
    if (row && ids.has(row.id) && !reads && !tree.hidden) void show();
  }) : undefined;
  openDetail(show, () => {
    clearTimeout(timer); // who goes back at once is back
    at()?.focus();
  });
  adopt(tree);
  void arrived(idsIn(tree));
  came();
  if (scrolls(tree) || location.search) at()?.scrollIntoView({ block: scrolls(tree) ? "center" : "nearest" }); // else the cause is to be seen first
  const address = new URLSearchParams(location.search);
  if (address.get("at") === at()?.id && document.activeElement === document.body) at()?.focus({ preventScroll: true });
  void fillAll();
  return keys;
}
