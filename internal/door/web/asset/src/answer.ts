import { loggedOut, LoggedOut, page } from "./fragment";

// openAnswers sends the forms of answers without leaving the page: what is wrong with one is said in its place, and only an answer that
// was taken adds an entry to the history.
export function openAnswers(): void {
  document.addEventListener("submit", (event) => {
    const form = event.target as HTMLFormElement;
    const button = event.submitter as HTMLButtonElement | null;
    if (!form.matches("form.answer") || event.defaultPrevented) return;
    event.preventDefault();
    if (form.ariaBusy === "true") return; // it is on its way
    form.ariaBusy = "true";
    void send(form, button).catch((error: unknown) => wrong(form, error)).finally(() => { form.ariaBusy = null; });
  });
}

async function send(form: HTMLFormElement, button: HTMLButtonElement | null): Promise<void> {
  const sent = new URLSearchParams();
  for (const [name, value] of new FormData(form, button)) sent.append(name, String(value));
  const answer = await fetch(form.getAttribute("action") ?? "", { method: "POST", body: sent, headers: { Accept: "text/html" } });
  if (answer.redirected) {
    history.pushState(null, "", answer.url);
    location.reload();
    return;
  }
  if (answer.status === 401) throw new LoggedOut("the session has ended");
  const now = await page(answer);
  const place = form.closest(".detail, .start");
  const fresh = now.querySelector(place?.matches(".start") ? ".start" : ".detail");
  if (!place || !fresh) throw new Error(now.querySelector("[role=alert]")?.textContent ?? answer.statusText);
  place.replaceChildren(...fresh.childNodes);
  place.querySelector<HTMLElement>("[autofocus]")?.focus();
  place.querySelector("[role=alert]")?.scrollIntoView({ block: "nearest" });
}

// wrong says why a form could not be sent. What was typed stays.
function wrong(form: HTMLFormElement, error: unknown): void {
  const message = document.createElement("p");
  message.className = "bad";
  message.setAttribute("role", "alert");
  if (error instanceof LoggedOut) message.append(...loggedOut());
  else message.append(`Not sent: ${(error as Error).message}`);
  form.querySelector("[role=alert]")?.remove();
  form.prepend(message);
}
