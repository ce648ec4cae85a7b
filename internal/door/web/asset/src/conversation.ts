import { fragment, loggedOut, LoggedOut } from "./fragment";
import { listen } from "./stream";

const pause = 1000; // between two questions, at least

// openConversation counts the runs that a conversation has got since. Nothing moves: the way to them is a link.
export function openConversation(conversation: HTMLElement): void {
  const known = new Set([...conversation.querySelectorAll<HTMLElement>("[data-run]")].map((run) => run.dataset.run));
  let asked = false;

  async function count(): Promise<void> {
    asked = false;
    const rows = (await fragment(conversation.dataset.newer ?? "")).querySelectorAll("tr").length;
    if (rows === 0) return;
    let line = conversation.querySelector(".newer");
    if (!line) {
      line = document.createElement("p");
      line.className = "newer";
      line.setAttribute("role", "status");
      conversation.append(line);
    }
    const link = document.createElement("a");
    link.href = location.pathname;
    link.textContent = rows === 1 ? "1 newer run" : `${rows} newer runs`;
    line.replaceChildren(link);
  }

  const stream = listen(conversation.dataset.events ?? "", (type, data) => {
    const others = type === "reset" || (type === "plans" && (data as { plans: { rootPlanId: string }[] }).plans.some((plan) => !known.has(plan.rootPlanId)));
    if (!others || asked) return;
    asked = true;
    setTimeout(() => void count().catch((error) => { if (error instanceof LoggedOut) stream.end(...loggedOut()); }), pause);
  });
}
