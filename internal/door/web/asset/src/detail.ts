import { loggedOut, LoggedOut } from "./fragment";
import { copy } from "./keys";
import { morph } from "./rows";

const detail = (): HTMLElement | null => document.querySelector<HTMLElement>(".detail");

let asked: AbortController | undefined; // for the detail on its way

// show brings a detail.
export async function show(ask: (signal: AbortSignal) => Promise<DocumentFragment>): Promise<void> {
  asked?.abort();
  const mine = (asked = new AbortController());
  const old = detail();
  if (!old) return;
  try {
    const fresh = (await ask(mine.signal)).querySelector<HTMLElement>(".detail");
    if (fresh) renew(old, fresh);
  } catch (error) {
    if (mine.signal.aborted) return;
    const message = document.createElement("p");
    message.setAttribute("role", "alert");
    if (error instanceof LoggedOut) message.append(...loggedOut());
    else message.append(`The detail could not be read: ${(error as Error).message}`);
    old.replaceChildren(message);
  }
}

// renew puts a detail in the place of another. Of the same row, what did not change stays as it is, and what is unfolded stays so.
function renew(old: HTMLElement, fresh: HTMLElement): void {
  const row = (d: HTMLElement): string | null | undefined => d.querySelector(".link")?.getAttribute("href");
  if (row(old) === row(fresh)) {
    for (const open of old.querySelectorAll("details[open]")) fresh.querySelector(`#${CSS.escape(open.id)}`)?.setAttribute("open", "");
    morph(old, fresh);
  } else {
    old.replaceChildren(...fresh.childNodes);
    old.scrollTop = 0;
  }
}

// copyOf copies a text, and says so on what was clicked.
async function copyOf(on: HTMLElement, text: string | Promise<string>): Promise<void> {
  const name = on.textContent;
  try {
    await copy(await text);
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

// openDetail makes the links of the detail quicker. again shows it again, and left is called when the reader went back to the rows.
export function openDetail(again: () => unknown, left: () => unknown): void {
  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.button !== 0) return;
    const target = (event.target as Element).closest<HTMLElement>(".detail a, .detail button.copy");
    if (!target) return;
    const link = target as HTMLAnchorElement;
    if (target.matches("button.copy")) {
      const from = target.dataset.from;
      void copyOf(target, from ? whole(from) : target.closest(".text")?.querySelector("pre")?.textContent ?? "");
    } else if (target.matches(".link")) {
      event.preventDefault();
      void copyOf(target, link.href);
    } else if (target.matches(".here")) {
      event.preventDefault();
      history.replaceState(null, "", link.href);
      again();
    } else if (target.matches(".back a")) {
      event.preventDefault();
      history.replaceState(null, "", link.href);
      choose(false);
      left();
    }
  });
}

// choose says whether a row was chosen: then a narrow screen has its detail, else the tree.
export function choose(chosen: boolean): void {
  const split = document.querySelector(".split");
  if (split?.classList.contains("chosen") === chosen) return;
  split?.classList.toggle("chosen", chosen);
  if (detail()?.querySelector(".back")?.checkVisibility()) scrollTo(0, 0);
}
