import { fragment } from "./fragment";
import { say } from "./say";

const from = "actlog list"; // where a tab keeps the filters of the list from which its reader came
const pageSize = 200;
const mostPages = 40;
const hour = 3_600_000;

// came notes from which list the reader came. A link that was opened cold has the list without filters.
export function came(): void {
  const referrer = document.referrer ? new URL(document.referrer) : undefined;
  if (referrer?.origin !== location.origin) sessionStorage.removeItem(from);
  else if (referrer.pathname === "/") sessionStorage.setItem(from, referrer.search);
}

// neighbour goes to the run below this one in the list (1), or above it (-1). The list is read from a time on that is a little
// later than the run, and then from later ones: so an old run is found, too.
export async function neighbour(tree: HTMLElement, step: 1 | -1): Promise<void> {
  const run = tree.dataset.run ?? "";
  const start = Date.parse(tree.dataset.start ?? "");
  const query = new URLSearchParams(sessionStorage.getItem(from) ?? "");
  query.delete("cursor");
  query.set("limit", String(pageSize));
  const spans = Number.isNaN(start) || query.get("until") ? [Infinity] : [hour / 60, hour, 24 * hour, 720 * hour, Infinity];
  try {
    for (const span of spans) {
      if (span < Infinity) query.set("until", new Date(start + span).toISOString());
      else if (spans.length > 1) query.delete("until");
      const to = await beside(`/?${query}`, run, step);
      if (to) return location.assign(to);
    }
    say(step > 0 ? "There is no older run in the list." : "There is no newer run in the list.");
  } catch (error) {
    say((error as Error).message);
  }
}

// beside returns the run beside one in a list, page by page.
async function beside(list: string, run: string, step: 1 | -1): Promise<string | undefined> {
  const runs: string[] = [];
  for (let page: string | null = list, n = 0; page && n < mostPages; n++) {
    const piece = await fragment(page);
    for (const link of piece.querySelectorAll("main a[href^='/runs/']")) {
      const to = link.getAttribute("href") ?? "";
      if (!to.includes("?") && !runs.includes(to)) runs.push(to);
    }
    const here = runs.indexOf(run);
    if (here >= 0 && (step < 0 || here + 1 < runs.length)) return runs[here + step];
    page = piece.querySelector("a[rel=next]")?.getAttribute("href") ?? null;
  }
  return undefined;
}
