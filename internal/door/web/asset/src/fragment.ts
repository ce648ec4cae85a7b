// Pieces of pages come from the server as HTML that it has escaped. This is the one place where they become elements.
type Types = { createPolicy(name: string, rules: object): { createHTML(html: string): unknown } };
const policy = (window as { trustedTypes?: Types }).trustedTypes?.createPolicy("actlog", { createHTML: (html: string) => html });

// LoggedOut says that the session has ended.
export class LoggedOut extends Error {}

// loggedOut says so, with the way back.
export function loggedOut(): (string | Node)[] {
  const link = document.createElement("a");
  link.href = `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
  link.textContent = "log in";
  return ["The session has ended: ", link];
}

// problem returns what is wrong with an answer.
export async function problem(answer: Response): Promise<Error> {
  if (answer.status === 401) return new LoggedOut("the session has ended");
  const detail = await answer.json().then((p: { detail?: string }) => p.detail, () => "");
  return new Error(`${answer.status} ${detail || answer.statusText}`);
}

// fragment returns the elements of a piece of a page. It throws if the server does not answer with one.
export async function fragment(path: string, signal?: AbortSignal): Promise<DocumentFragment> {
  const answer = await fetch(path, { signal, headers: { Accept: "text/html" } });
  if (answer.redirected) throw new LoggedOut("the session has ended");
  if (!answer.ok) throw await problem(answer);
  return page(answer);
}

// page returns the elements of an answer.
export async function page(answer: Response): Promise<DocumentFragment> {
  const html = await answer.text();
  const holder = document.createElement("template");
  holder.innerHTML = (policy ? policy.createHTML(html) : html) as string;
  return holder.content;
}
