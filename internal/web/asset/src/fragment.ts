// Pieces of pages come from the server as HTML that it has escaped. This is the one place where they become elements.
const policy = window.trustedTypes?.createPolicy("actlog", { createHTML: (html: string) => html });

// fragment returns the elements of a piece of a page. It throws if the server does not answer with one.
export async function fragment(path: string, signal?: AbortSignal): Promise<DocumentFragment> {
  const answer = await fetch(path, { signal, headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  if (answer.redirected) throw new Error("the session has ended; load the page again");
  const html = await answer.text();
  const holder = document.createElement("template");
  holder.innerHTML = (policy ? policy.createHTML(html) : html) as string;
  return holder.content;
}
