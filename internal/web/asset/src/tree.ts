import { choose, openDetail, show } from "./detail";
import { fragment } from "./fragment";
import { follow } from "./live";

// openTree makes a tree of rows usable by keyboard, opens details in place, and folds.
export function openTree(tree: HTMLElement): void {
  const run = location.pathname;

  const all = (): HTMLAnchorElement[] => [...tree.querySelectorAll<HTMLAnchorElement>(".row:not([hidden])")];
  const level = (row: Element): number => Number(row.getAttribute("aria-level"));
  const at = (): HTMLAnchorElement | null => tree.querySelector<HTMLAnchorElement>("[aria-selected=true]");
  // next returns the row after one in the document; rows stand in sections, of which some may be empty.
  function next(row: Element): Element | null {
    if (row.nextElementSibling) return row.nextElementSibling;
    for (let s = row.parentElement?.nextElementSibling; s; s = s.nextElementSibling) if (s.firstElementChild) return s.firstElementChild;
    return null;
  }

  // below returns the rows under one, hidden ones included.
  function below(row: Element): HTMLElement[] {
    const rows: HTMLElement[] = [];
    for (let r = next(row); r && level(r) > level(row); r = next(r)) rows.push(r as HTMLElement);
    return rows;
  }

  // select opens the detail of a row. Back leaves the run: the address is replaced.
  async function select(row: HTMLAnchorElement, focus = true): Promise<void> {
    for (const old of tree.querySelectorAll("[aria-selected=true]")) {
      old.setAttribute("aria-selected", "false");
      old.classList.remove("at");
      old.setAttribute("tabindex", "-1");
    }
    row.setAttribute("aria-selected", "true");
    row.classList.add("at");
    row.setAttribute("tabindex", "0");
    if (focus) row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    history.replaceState(null, "", row.href);
    choose(true);
    await show(location.search);
  }

  // fold folds a row or unfolds it. Rows that never were on the page come from the server.
  async function fold(row: HTMLElement, open = row.getAttribute("aria-expanded") === "false"): Promise<void> {
    if (!row.hasAttribute("aria-expanded")) return;
    const rows = below(row);
    if (open && rows.length === 0) {
      const piece = await fragment(`${run}/rows?under=${encodeURIComponent(row.id)}`);
      row.after(piece);
    }
    row.setAttribute("aria-expanded", String(open));
    const sign = row.querySelector(".fold");
    if (sign) sign.textContent = open ? "▾" : "▸";
    let under = Infinity; // the level of a folded row above
    for (const r of rows) {
      if (level(r) > under) continue;
      under = r.getAttribute("aria-expanded") === "false" ? level(r) : Infinity;
      r.hidden = !open;
    }
    if (!open) for (const r of rows) r.hidden = true;
  }

  // failure goes to the next failure, or the one before. It comes round again.
  function failure(step: number): void {
    const failures = (document.querySelector<HTMLElement>("[data-failures]")?.dataset.failures ?? "").split(" ").filter(Boolean);
    if (failures.length === 0) return;
    const here = failures.indexOf(at()?.id ?? "");
    const to = here < 0 ? 0 : (here + step + failures.length) % failures.length;
    const id = failures[to] ?? "";
    const row = document.getElementById(id) as HTMLAnchorElement | null;
    if (!row || row.hidden) {
      location.assign(`${run}?at=${encodeURIComponent(id)}`); // it is folded away
      return;
    }
    const count = document.querySelector(".count");
    if (count) count.textContent = `${to + 1} of ${failures.length}`;
    void select(row);
  }

  // move goes some rows down or up; Infinity is the last row. Sections on the way are filled.
  async function move(step: number): Promise<void> {
    const sections = [...tree.children] as HTMLElement[];
    const here = sections.indexOf(at()?.parentElement as HTMLElement);
    const to = Number.isFinite(step) ? here + Math.sign(step) : step > 0 ? sections.length - 1 : 0;
    const section = sections[to];
    if (section) await fill(section);
    const rows = all();
    const row = rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(at() as HTMLAnchorElement) + step))];
    if (row) void select(row);
  }

  function sideways(row: HTMLAnchorElement, open: boolean): void {
    if (row.hasAttribute("aria-expanded") && (row.getAttribute("aria-expanded") === "true") !== open) {
      void fold(row, open);
      return;
    }
    if (open) {
      if (row.hasAttribute("aria-expanded")) void move(1);
      return;
    }
    const rows = all();
    for (let i = rows.indexOf(row) - 1; i >= 0; i--) {
      const r = rows[i];
      if (r && level(r) < level(row)) return void select(r);
    }
  }

  const keys: Record<string, (row: HTMLAnchorElement) => void> = {
    ArrowDown: () => void move(1), j: () => void move(1),
    ArrowUp: () => void move(-1), k: () => void move(-1),
    Home: () => void move(-Infinity), End: () => void move(Infinity),
    ArrowRight: (row) => sideways(row, true), ArrowLeft: (row) => sideways(row, false),
    f: (row) => void fold(row),
    e: () => failure(1), E: () => failure(-1),
  };
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input, textarea, select, [contenteditable]")) return;
    if (target.closest(".detail") && event.key.length > 1) return; // arrows scroll a text
    const act = keys[event.key];
    const row = at();
    if (!act || !row) return;
    event.preventDefault();
    act(row);
  });
  tree.addEventListener("click", (event) => {
    const target = event.target as HTMLElement;
    const row = target.closest<HTMLAnchorElement>(".row");
    if (!row || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.button !== 0) return;
    event.preventDefault();
    if (target.closest(".fold")) void fold(row);
    else void select(row);
  });
  // fill brings the rows of a section that is empty.
  async function fill(section: HTMLElement): Promise<void> {
    const from = section.dataset.from;
    if (!from) return;
    delete section.dataset.from;
    try {
      const piece = await fragment(from);
      for (const row of piece.querySelectorAll(".row")) row.setAttribute("tabindex", "-1");
      section.replaceChildren(piece);
    } catch {
      section.dataset.from = from; // it is tried again when it comes near
    }
  }
  const near = new IntersectionObserver((entries) => {
    for (const e of entries) if (e.isIntersecting) void fill(e.target as HTMLElement);
  }, { rootMargin: "2000px" });
  const empty = tree.querySelectorAll<HTMLElement>("[data-from]");
  for (const section of empty) near.observe(section);
  // When there is nothing else to do, the rest is filled, so that the browser's own search finds it.
  const most = 100;
  async function fillAll(): Promise<void> {
    for (const section of [...empty].slice(0, most)) {
      await new Promise((done) => requestIdleCallback(done));
      await fill(section);
    }
  }
  void fillAll();
  openDetail(() => {
    choose(false);
    history.replaceState(null, "", run);
    at()?.focus();
  });
  for (const row of tree.querySelectorAll<HTMLElement>(".row")) row.setAttribute("tabindex", row.classList.contains("at") ? "0" : "-1");
  at()?.scrollIntoView({ block: "nearest" });
  if (tree.dataset.events) {
    follow(tree, (ids) => {
      const row = at();
      const marked = getSelection();
      const reads = marked && !marked.isCollapsed && document.querySelector(".detail")?.contains(marked.anchorNode);
      const looked = new URLSearchParams(location.search).get("at") === row?.id;
      if (row && ids.has(row.id) && !reads) void show(looked ? location.search : new URL(row.href).search);
    });
  }
}
