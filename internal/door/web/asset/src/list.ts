import { fragment, loggedOut, LoggedOut } from "./fragment";
import { listen } from "./stream";

const atOnce = 100; // rows that are asked for together,
const longest = 4000; // by an address of so many characters

// openList keeps the runs of a list as they are on record, each in its place, and counts those that are newer.
export function openList(list: HTMLElement): void {
  pickTwo(list);
  if (list.dataset.events) follow(list, list.dataset.events);
}

function idOf(row: Element): string {
  return row.querySelector<HTMLInputElement>("input[name=run]")?.value ?? "";
}

// pickTwo lets two runs be picked, to be compared.
function pickTwo(list: HTMLElement): void {
  const picked: HTMLInputElement[] = [];
  function show(): void {
    const button = list.querySelector<HTMLButtonElement>(".pair");
    if (button) button.disabled = picked.length !== 2;
  }
  list.addEventListener("change", (event) => {
    const box = event.target as HTMLInputElement;
    if (box.checked) picked.push(box);
    else picked.splice(picked.indexOf(box), 1);
    const first = picked.length > 2 && picked.shift();
    if (first) first.checked = false;
    show();
  });
  show();
}

function follow(list: HTMLElement, events: string): void {
  const changed = new Set<string>(); // runs of the list
  let others = false; // other runs changed: some may be newer
  let busy = false;
  const rows = (): Map<string, HTMLTableRowElement> =>
    new Map([...list.querySelectorAll<HTMLInputElement>("input[name=run]")].map((box) => [box.value, box.closest("tr") as HTMLTableRowElement]));

  // update brings what has changed. The longer it takes, the more is collected for the next time.
  async function update(): Promise<void> {
    if (busy || (changed.size === 0 && !others)) return;
    busy = true;
    const began = Date.now();
    const ids: string[] = [];
    const look = others;
    let pause = look ? 1000 : 250;
    for (const id of changed) {
      if (ids.length === atOnce || (ids.length > 0 && asking([...ids, id]).length > longest)) break;
      ids.push(id);
      changed.delete(id);
    }
    others = false;
    try {
      if (ids.length > 0) await patch(ids);
      if (look) await findNewer();
    } catch (error) {
      if (error instanceof LoggedOut) return stream.end(...loggedOut());
      for (const id of ids) changed.add(id); // it is asked for again
      others ||= look;
      pause = 3000;
    }
    setTimeout(() => { busy = false; void update(); }, Math.max(pause, 2 * (Date.now() - began)));
  }

  const asking = (ids: string[]): string => `/list/patch?runs=${encodeURIComponent(ids.map(encodeURIComponent).join(" "))}`;

  // patch renews rows in their places. What is picked stays so, and so does the focus.
  async function patch(ids: string[]): Promise<void> {
    const piece = await fragment(asking(ids));
    const listed = rows();
    const gone = new Set(ids);
    for (const fresh of piece.querySelectorAll("tr")) {
      const id = idOf(fresh);
      gone.delete(id);
      const old = listed.get(id);
      if (!old) continue;
      if (fresh.dataset.place) old.dataset.place = fresh.dataset.place; // its start may have been told
      for (const [i, cell] of [...fresh.cells].entries()) {
        const was = old.cells[i];
        if (!was || cell.className === "pick" || was.innerHTML === cell.innerHTML) continue;
        const focused = was.contains(document.activeElement);
        was.replaceChildren(...cell.childNodes);
        if (focused) was.querySelector("a")?.focus({ preventScroll: true });
      }
    }
    for (const id of gone) listed.get(id)?.classList.add("gone");
  }

  // findNewer counts the runs that are newer than the first one. They are shown on a click. An empty list shows them at once.
  async function findNewer(): Promise<void> {
    if (!list.dataset.newer) return; // it is not the first page
    const first = list.querySelector<HTMLElement>("tbody tr");
    const at = new URL(list.dataset.newer, location.href);
    if (first) at.searchParams.set("after", first.dataset.place ?? "");
    const listed = rows();
    const fresh = [...(await fragment(at.pathname + at.search)).querySelectorAll("tr")].filter((row) => !listed.has(idOf(row)));
    if (fresh.length === 0) return;
    if (first) return offer(fresh);
    const page = await fragment(location.pathname + location.search);
    list.replaceChildren(...(page.querySelector(".list")?.childNodes ?? []));
  }

  // offer says how many newer runs there are. If they are as many as a page has, there may be more: the way is the newest page.
  function offer(fresh: Element[]): void {
    let line = list.querySelector(".newer");
    if (!line) {
      line = document.createElement("p");
      line.className = "newer";
      line.setAttribute("role", "status");
      list.prepend(line);
    }
    const link = document.createElement("a");
    const more = fresh.length >= Number(at("limit") ?? 50);
    link.href = location.pathname + location.search;
    link.textContent = `↑ ${fresh.length}${more ? " or more" : ""} newer`;
    link.addEventListener("click", (event) => {
      if (more || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      line?.remove();
      list.querySelector("tbody")?.prepend(...fresh);
      fresh[0]?.querySelector<HTMLElement>(".run a")?.focus();
    });
    line.replaceChildren(link);
  }
  const at = (name: string): string | null => new URLSearchParams(location.search).get(name);

  const stream = listen(events, (type, data) => {
    const listed = rows();
    if (type === "reset") for (const id of listed.keys()) changed.add(id);
    if (type === "reset") others = true;
    if (type === "plans") {
      for (const plan of (data as { plans: { rootPlanId: string }[] }).plans) {
        if (listed.has(plan.rootPlanId)) changed.add(plan.rootPlanId);
        else others = true;
      }
    }
    void update();
  });
}
