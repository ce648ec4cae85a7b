import { fragment } from "./fragment";

const detail = (): HTMLElement | null => document.querySelector<HTMLElement>(".detail");

// narrow reports that the detail is a screen of its own, instead of the tree.
const narrow = (): boolean => detail()?.querySelector(".back")?.checkVisibility() ?? false;

let asked: AbortController | undefined; // for the detail on its way

// show brings a detail: its query says of which row, and how it is looked at.
export async function show(query: string): Promise<void> {
  asked?.abort();
  const mine = (asked = new AbortController());
  const old = detail();
  try {
    const piece = await fragment(`${location.pathname}/detail${query}`, mine.signal);
    const fresh = piece.querySelector<HTMLElement>(".detail");
    if (old && fresh) renew(old, fresh);
  } catch (error) {
    if (mine.signal.aborted || !old) return;
    const message = document.createElement("p");
    message.setAttribute("role", "alert");
    message.textContent = `The detail could not be read: ${(error as Error).message}`;
    old.replaceChildren(message);
  }
}

// renew puts a detail in the place of another. Of the same row, what did not change stays as it is, with its focus, and the rest
// where it was scrolled to.
function renew(old: HTMLElement, fresh: HTMLElement): void {
  const row = (d: HTMLElement): string | null | undefined => d.querySelector(".link")?.getAttribute("href");
  if (row(old) !== row(fresh)) {
    old.replaceChildren(...fresh.childNodes);
    old.scrollTop = 0;
  } else {
    merge(old, fresh);
  }
  ready();
}

// holders hold nothing but other elements.
const holders = new Set(["DIV", "SECTION", "DL", "UL", "LI", "DETAILS"]);

// merge makes an element like another one, and keeps what is the same.
function merge(old: Element, fresh: Element): void {
  const had = [...old.children];
  const has = [...fresh.children];
  has.forEach((to, i) => {
    const from = had[i];
    if (!from) return old.append(to);
    if (from.tagName === "DETAILS" && to.tagName === "DETAILS") to.toggleAttribute("open", from.hasAttribute("open") || to.hasAttribute("open"));
    for (const button of from.querySelectorAll<HTMLElement>("button.copy")) button.hidden = true; // as it comes
    if (from.isEqualNode(to)) return;
    if (holders.has(from.tagName) && from.tagName === to.tagName && from.id === to.id && from.className === to.className) merge(from, to);
    else from.replaceWith(to);
  });
  for (const gone of had.slice(has.length)) gone.remove();
}

// ready shows what works with a script only: a browser lets pages copy if they come over TLS, or from this machine.
function ready(): void {
  if (!navigator.clipboard) return;
  for (const button of detail()?.querySelectorAll<HTMLElement>("button.copy") ?? []) button.hidden = false;
}

// copy copies a text, and says so on what was clicked.
async function copy(on: HTMLElement, text: () => string | Promise<string>): Promise<void> {
  const name = on.textContent;
  try {
    await navigator.clipboard.writeText(await text());
    on.textContent = "Copied";
  } catch (error) {
    on.textContent = `Not copied: ${(error as Error).message}`;
  }
  setTimeout(() => { on.textContent = name; }, 1500);
}

async function whole(path: string): Promise<string> {
  const answer = await fetch(path);
  if (!answer.ok || answer.redirected) throw new Error(answer.statusText || "the session has ended");
  return answer.text();
}

// openDetail makes the links of the detail quicker. leave is called when the reader goes back to the rows.
export function openDetail(leave: () => void): void {
  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.button !== 0) return;
    const target = (event.target as Element).closest<HTMLElement>(".detail a, .detail button.copy");
    if (!target) return;
    if (target.matches("button.copy")) {
      const from = target.dataset.from;
      void copy(target, () => (from ? whole(from) : target.closest(".text")?.querySelector("pre")?.textContent ?? ""));
      return;
    }
    const link = target as HTMLAnchorElement;
    if (target.matches(".link") && navigator.clipboard) {
      event.preventDefault();
      void copy(target, () => link.href);
    } else if (target.matches(".here")) {
      event.preventDefault();
      history.replaceState(null, "", link.href);
      void show(location.search);
    } else if (target.matches(".back a")) {
      event.preventDefault();
      leave();
    }
  });
  ready();
}

// choose says whether a row was chosen: then a narrow screen has its detail, else the tree.
export function choose(chosen: boolean): void {
  document.querySelector(".split")?.classList.toggle("chosen", chosen);
  if (chosen && narrow()) scrollTo(0, 0);
}
