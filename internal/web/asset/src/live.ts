import { fragment, loggedOut, LoggedOut } from "./fragment";
import { listen } from "./stream";

// follow keeps the rows of a run as they are on record. A row changes in its place. Focus, selection, folds and what is looked
// at stay as they are.
export function follow(tree: HTMLElement, changed: (ids: Set<string>) => void): void {
  const waiting = new Set<string>(); // rows that changed
  let busy = false;

  // patch brings what waits. The longer it takes, the more is collected for the next time.
  async function patch(): Promise<void> {
    if (busy || waiting.size === 0) return;
    busy = true;
    const began = Date.now();
    let pause = 50;
    const ids = [...waiting].slice(0, 100);
    for (const id of ids) waiting.delete(id);
    try {
      const piece = await fragment(`${location.pathname}/patch?rows=${encodeURIComponent(ids.join(" "))}`);
      const head = document.getElementById("head");
      const newHead = piece.querySelector(".new-head");
      if (head && newHead && head.innerHTML !== newHead.innerHTML) head.replaceChildren(...newHead.childNodes);
      for (const holder of piece.querySelectorAll<HTMLElement>(".new-row")) place(holder);
      changed(new Set(ids));
    } catch (error) {
      if (error instanceof LoggedOut) return stream.end(...loggedOut());
      for (const id of ids) waiting.add(id); // they are asked for again
      pause = 2000;
    }
    setTimeout(() => { busy = false; void patch(); }, Math.max(pause, Date.now() - began));
  }

  const level = (row: Element): number => Number(row.getAttribute("aria-level"));

  // place puts a row where it belongs, or renews it.
  function place(holder: HTMLElement): void {
    const fresh = holder.firstElementChild as HTMLElement;
    const old = document.getElementById(fresh.id);
    if (old) {
      for (const name of ["class", "aria-setsize", "aria-posinset"]) old.setAttribute(name, fresh.getAttribute(name) ?? "");
      old.classList.toggle("at", old.getAttribute("aria-selected") === "true");
      const open = old.getAttribute("aria-expanded");
      if (fresh.hasAttribute("aria-expanded")) old.setAttribute("aria-expanded", open ?? "true");
      old.replaceChildren(...fresh.childNodes);
      const sign = old.querySelector(".fold");
      if (sign && open) sign.textContent = open === "true" ? "▾" : "▸";
      return;
    }
    for (const id of (holder.dataset.after ?? "").split(" ")) {
      const before = document.getElementById(id);
      if (!before) continue;
      let behind: Element = before;
      const under = level(before) < level(fresh); // it is the first row under this one
      if (!under) {
        for (let r = behind.nextElementSibling; r && level(r) > level(before); r = r.nextElementSibling) behind = r;
      }
      const folded = under && before.getAttribute("aria-expanded") === "false";
      if (folded) return; // it comes when the row is unfolded
      fresh.hidden = (before as HTMLElement).hidden;
      fresh.setAttribute("tabindex", "-1");
      fresh.setAttribute("aria-selected", "false");
      fresh.classList.remove("at");
      behind.after(fresh);
      return;
    }
  }

  const stream = listen(tree.dataset.events ?? "", (type, data) => {
    switch (type) {
      case "rows":
        for (const row of (data as { rows: { at: string }[] }).rows) waiting.add(row.at);
        break;
      case "reset":
        for (const row of tree.querySelectorAll(".row")) waiting.add(row.id);
        break;
      case "deleted":
        waiting.clear();
    }
    void patch();
  });
}
