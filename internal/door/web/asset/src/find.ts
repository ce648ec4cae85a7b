import { choose, show as showDetail } from "./detail";
import { fragment } from "./fragment";
import { copy, type Key } from "./keys";
import { say } from "./say";

// What was seen when a list came, to be seen again.
interface Held {
  page: number; // how far it is scrolled
  tree: number;
  focus: Element | null;
  chosen: boolean;
  address: string;
}

// openFind shows lists of rows in place of the tree: what a search finds, the failures, the slow rows. The tree stays as it is behind
// them, and goes on to be followed. It returns the keys of a page with such lists; those of the tree lead back to it.
export function openFind(tree: HTMLElement, treeKeys: Key[]): Key[] {
  const field = document.querySelector<HTMLInputElement>(".tools input[type=search]");
  const list = (): HTMLElement | null => document.querySelector<HTMLElement>(".found");
  const hits = (): HTMLAnchorElement[] => [...document.querySelectorAll<HTMLAnchorElement>(".hit")];
  let held: Held | undefined;
  let left: Held | undefined; // what is held if a list comes: the field takes the focus, and may be far above
  let asked: AbortController | undefined;

  const now = (address = location.href): Held => ({
    page: scrollY, tree: tree.scrollTop, focus: document.activeElement, chosen: document.querySelector(".split.chosen") !== null, address,
  });

  // show puts a list in place of the tree.
  async function show(address: string, from = left ?? now()): Promise<void> {
    asked?.abort();
    const mine = (asked = new AbortController());
    let found: DocumentFragment;
    try {
      found = await fragment(`${location.pathname}/found${new URL(address, location.href).search}`, mine.signal);
    } catch (error) {
      if (!mine.signal.aborted) say((error as Error).message);
      return;
    }
    held ??= from;
    list()?.remove();
    tree.hidden = true;
    tree.before(found);
    history.replaceState(null, "", address);
    choose(false); // a narrow screen has the list
    if ((list()?.getBoundingClientRect().top ?? 0) < 0) list()?.scrollIntoView();
  }

  // back puts the tree in place of the list, as it was.
  function back(): void {
    held ??= left;
    left = undefined;
    list()?.remove();
    tree.hidden = false;
    if (field) field.value = "";
    if (!held) return;
    asked?.abort();
    history.replaceState(null, "", held.address);
    choose(held.chosen);
    const focus = held.focus && held.focus !== field && tree.contains(held.focus) ? held.focus : tree.querySelector("[aria-selected=true]");
    (focus as HTMLElement | null)?.focus({ preventScroll: true });
    scrollTo(0, held.page);
    tree.scrollTop = held.tree;
    held = undefined;
    tree.dispatchEvent(new Event("seen")); // with its detail
  }

  // open shows the detail of a row of the list beside it.
  function open(hit: HTMLAnchorElement): Promise<void> {
    for (const other of hits()) {
      other.classList.toggle("at", other === hit);
      if (other === hit) other.setAttribute("aria-current", "true");
      else other.removeAttribute("aria-current");
    }
    history.replaceState(null, "", hit.href);
    choose(true);
    const query = new URL(hit.href).searchParams;
    for (const member of ["q", "show", "cursor"]) query.delete(member);
    return showDetail((signal) => fragment(`${location.pathname}/detail?${query}`, signal));
  }

  function move(step: number): void {
    const all = hits();
    const here = all.findIndex((hit) => hit.hasAttribute("aria-current") && (hit === document.activeElement || document.activeElement === document.body));
    const hit = all[Math.max(0, Math.min(all.length - 1, here < 0 && Number.isFinite(step) ? 0 : here + step))];
    if (!hit) return;
    hit.focus({ preventScroll: true });
    hit.scrollIntoView({ block: "nearest" });
    void open(hit);
  }

  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest<HTMLElement>(".found a, .tools a, [data-copy], [data-cause]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const { copy: text, fold, show: which, at, cause } = link.dataset;
    if (text !== undefined) return void copy(text).then(() => say("The cause is copied."), () => say("The browser does not let it be copied."));
    if (fold !== undefined) return list() ? back() : undefined; // the tree folds
    event.preventDefault();
    if (cause !== undefined || link.matches(".totree")) {
      back();
      tree.dispatchEvent(new CustomEvent("reveal", { detail: cause ?? at }));
    } else if (link.matches(".hit")) void open(link as HTMLAnchorElement);
    else if (link.matches(".to-tree")) back();
    else if (which !== undefined || link.matches(".rest")) void show(current((link as HTMLAnchorElement).href));
  });

  // current is an address of a list, with the row that is open now.
  function current(address: string): string {
    const to = new URL(address, location.href);
    const at = tree.querySelector("[aria-selected=true]")?.id;
    if (at) to.searchParams.set("at", at);
    return to.href;
  }

  field?.form?.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!field.value.trim()) return back();
    const to = new URL(location.href);
    for (const member of ["show", "cursor"]) to.searchParams.delete(member);
    to.searchParams.set("q", field.value);
    void show(current(to.href));
  });
  field?.addEventListener("blur", () => { left = undefined; });
  field?.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      back();
    } else if (event.key === "ArrowDown" && list()) {
      event.preventDefault();
      move(0);
    }
  });

  // The failures are counted as they come.
  const head = document.getElementById("head");
  if (head) {
    new MutationObserver(() => {
      const link = document.querySelector<HTMLElement>("[data-show=failures]");
      const n = (document.querySelector<HTMLElement>("[data-failures]")?.dataset.failures ?? "").split(" ").filter(Boolean).length;
      if (!link) return;
      link.hidden = n === 0;
      link.querySelector(".failures")?.replaceChildren(String(n));
    }).observe(head, { childList: true, subtree: true, attributes: true });
  }
  const shown = document.querySelector<HTMLAnchorElement>(".found .to-tree");
  if (shown) held = now(shown.href);
  const filters = sessionStorage.getItem("actlog list");
  const up = document.querySelector<HTMLAnchorElement>(".to-list");
  if (filters && up) up.href = `/${filters}`;

  const when = (): boolean => list() !== null;
  const seek = (): void => {
    left = list() ? undefined : now();
    field?.focus();
    field?.select();
  };
  return [
    { keys: ["/"], does: "search in this run", act: seek },
    { keys: ["Escape"], does: "back to the tree", when, act: back },
    { keys: ["ArrowDown", "j"], does: "the row below", when, act: () => move(1) },
    { keys: ["ArrowUp", "k"], does: "the row above", when, act: () => move(-1) },
    { keys: ["Home"], does: "the first row", when, act: () => move(-Infinity) },
    { keys: ["End"], does: "the last row", when, act: () => move(Infinity) },
    { keys: ["c"], does: "copy the link of the list", when, act: () => copy(location.href).then(() => say("The link is copied.")) },
    ...treeKeys.map((key) => ({ ...key, act: (): unknown => {
      if (list() && !key.keys.includes("[") && !key.keys.includes("]")) back();
      return key.act?.();
    } })),
  ];
}
