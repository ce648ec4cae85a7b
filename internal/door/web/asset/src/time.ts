const kept = "actlog times";

// chooseTimes adds the choice between times in UTC, as the server writes them, and those of the browser.
export function chooseTimes(): void {
  let local = localStorage.getItem(kept) === "local";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "times";
  button.dataset.key = "t";
  document.querySelector(".controls")?.append(button);

  function show(under: Element): void {
    for (const time of under.querySelectorAll<HTMLTimeElement>("time[datetime]")) {
      time.dataset.utc ??= time.textContent ?? "";
      time.textContent = local ? inZone(time.dataset.utc, new Date(time.dateTime)) : time.dataset.utc;
    }
    for (const zone of under.querySelectorAll(".zone")) zone.textContent = local ? "local" : "UTC";
  }

  // What comes later is written in UTC, too.
  const later = new MutationObserver((changes) => {
    for (const change of changes) {
      for (const node of change.addedNodes) if (node instanceof Element) show(node.parentElement ?? node);
    }
  });

  function choose(): void {
    button.textContent = local ? "local" : "UTC";
    button.title = local ? "Times are those of this computer" : "Times are in UTC";
    later.disconnect();
    show(document.body);
    if (local) later.observe(document.body, { childList: true, subtree: true });
  }
  button.addEventListener("click", () => {
    local = !local;
    if (local) localStorage.setItem(kept, "local");
    else localStorage.removeItem(kept);
    choose();
  });
  choose();
}

// inZone returns a text of a moment in UTC with the date and the hour that it has in the browser's zone.
function inZone(text: string, at: Date): string {
  const two = (n: number): string => String(n).padStart(2, "0");
  return text
    .replace(/\d{4}-\d\d-\d\d/, `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`)
    .replace(/\d\d:\d\d/, `${two(at.getHours())}:${two(at.getMinutes())}`)
    .replace(/( UTC|Z)$/, "");
}

// countOn lets the times of what goes on run on. The server said how long that had gone on when it was asked, so the clocks need not agree.
export function countOn(): void {
  const since = new WeakMap<Element, { ran: string; at: number }>();
  setInterval(() => {
    if (document.hidden) return;
    for (const span of document.querySelectorAll<HTMLElement>("[data-ran]")) {
      const ran = span.dataset.ran ?? "";
      let from = since.get(span);
      if (from?.ran !== ran) since.set(span, from = { ran, at: performance.now() });
      const text = duration(Math.floor((Number(ran) + performance.now() - from.at) / 1000));
      if (span.firstChild && span.firstChild.nodeValue !== text) span.firstChild.nodeValue = text;
    }
  }, 1000);
}

// duration says how long something took, as the server does.
function duration(seconds: number): string {
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return (hours ? `${hours}h` : "") + (hours || minutes ? `${minutes}m` : "") + `${seconds % 60}s`;
}
