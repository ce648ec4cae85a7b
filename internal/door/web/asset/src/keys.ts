// Key is what some keys do. Without an act, they click what bears the first one in data-key, if the page has it. With a when, they do so
// only then.
export interface Key {
  keys: string[];
  does: string;
  act?: () => unknown;
  when?: () => boolean;
}

const off = "actlog keys off";
const shown: Record<string, string> = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→" };

// bindKeys makes keys do what a table says, and what bears a key of it in data-key do so on a click. The table is also the help.
export function bindKeys(table: Key[]): void {
  const button = (of: Key): HTMLElement | null => document.querySelector(`[data-key="${of.keys[0]}"]`);
  const help: Key = { keys: ["?"], does: "this help", act: () => dialog().showModal() };
  const all = [...table, help];
  // One after the other: what a key does may have to wait for rows, and the next key is meant for what comes of it.
  let last: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  function run(act: () => unknown): void {
    waiting++;
    last = last.then(act).catch(() => undefined).finally(() => waiting--);
  }

  function dialog(): HTMLDialogElement {
    const box = document.createElement("dialog");
    box.className = "help";
    box.setAttribute("aria-label", "Keys");
    const list = document.createElement("dl");
    for (const key of all) {
      if ((!key.act && !button(key)) || key.when?.() === false) continue;
      const line = document.createElement("div");
      const names = document.createElement("dt");
      for (const name of key.keys) {
        const k = document.createElement("kbd");
        k.textContent = shown[name] ?? name;
        names.append(k, " ");
      }
      const what = document.createElement("dd");
      what.textContent = key.does;
      line.append(names, what);
      list.append(line);
    }
    const label = document.createElement("label");
    const use = document.createElement("input");
    use.type = "checkbox";
    use.checked = !localStorage.getItem(off);
    use.addEventListener("change", () => (use.checked ? localStorage.removeItem(off) : localStorage.setItem(off, "1")));
    label.append(use, " use letters and signs as keys");
    const close = document.createElement("button");
    close.type = "button";
    close.textContent = "close";
    close.addEventListener("click", () => box.close());
    box.append(list, label, close);
    box.addEventListener("close", () => box.remove());
    document.body.append(box);
    return box;
  }

  const open = document.createElement("button");
  open.type = "button";
  open.textContent = "?";
  open.dataset.key = "?";
  open.setAttribute("aria-label", "Keys");
  document.querySelector(".controls")?.append(open);

  document.addEventListener("click", (event) => {
    const name = (event.target as Element).closest<HTMLElement>("[data-key]")?.dataset.key;
    const act = name && all.find((key) => key.keys.includes(name))?.act;
    if (!act || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    run(act);
  });
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    const held = event.ctrlKey || event.altKey || event.metaKey;
    if (held && !event.getModifierState("AltGraph")) return; // with AltGr, some keyboards have [ and ]
    if (target.closest("input, textarea, select, dialog, [contenteditable]")) return;
    const letter = event.key.length === 1;
    if (letter && localStorage.getItem(off)) return;
    if (!letter && target.closest(".detail, [role=tablist], [role=menu]")) return; // arrows scroll a text
    const key = all.find((k) => k.keys.includes(event.key) && k.when?.() !== false);
    if (!key) return;
    const at = button(key);
    if (!key.act && !at) return;
    event.preventDefault();
    if (key.act) {
      if (!event.repeat || waiting < 2) run(key.act); // who holds a key down does not want to wait for what is left
    } else at?.click();
  });
}

// copy copies a text. Browsers have a clipboard only under TLS and on this machine; elsewhere the old way works.
export async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  const held = document.activeElement;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  if (held instanceof HTMLElement) held.focus({ preventScroll: true });
}
