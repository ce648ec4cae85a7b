import { loggedOut, LoggedOut, problem } from "./fragment";

// A browser keeps at most six connections to a server over HTTP/1.1, and the seventh request would wait for ever. So at most five
// tabs of a browser keep a stream. The others ask from time to time.
const most = 5;
const pollEvery = 5_000;
// silence is after how long a stream is lost that says nothing: it says something every 15 seconds.
const silence = 40_000;

// sessions is where a tab tells the others that its session has ended: theirs, too.
export const sessions = "actlog sessions";

// Stream is what a page is told.
export interface Stream {
  // end ends it for good, and says why.
  end(...why: (string | Node)[]): void;
}

// listen tells what an address of events sends, from the cursor in the address on and without a gap, and shows whether it is live.
// It listens while the page is seen and not paused. EventSource is not used: it does not show why it was refused, nor that the
// server still speaks, and gives up on a 503.
export function listen(path: string, told: (type: string, data: unknown) => void): Stream {
  const holder = document.createElement("span");
  holder.className = "stream";
  const status = document.createElement("span");
  status.className = "live";
  status.setAttribute("role", "status");
  const pause = document.createElement("button");
  pause.type = "button";
  pause.textContent = "pause";
  holder.append(status, pause);
  document.querySelector(".controls")?.prepend(holder);

  let last = ""; // the cursor of what was told
  let heard = Date.now();
  let lost = ""; // why nothing is heard; empty: it is
  let failures = 0; // one after the other
  let paused = false;
  let over = false;
  let listening: AbortController | undefined;

  function say(...what: (string | Node)[]): void {
    status.classList.toggle("bad", lost !== "");
    const now = document.createElement("span");
    now.append(...what);
    if (status.innerHTML !== now.innerHTML) status.replaceChildren(...now.childNodes);
  }

  function end(...why: (string | Node)[]): void {
    over = true;
    listening?.abort();
    pause.remove();
    say(...why);
  }

  // read tells what comes, until the connection ends; or, once, until nothing is missing.
  async function read(signal: AbortSignal, once: boolean): Promise<void> {
    const at = new URL(path, location.href);
    if (last) at.searchParams.set("after", last);
    const answer = await fetch(at, { signal, headers: { Accept: "text/event-stream" } });
    if (answer.status === 204) return end("ended");
    if (answer.status === 404) return told("deleted", {}), end("deleted");
    if (!answer.ok || !answer.body) throw await problem(answer);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) throw new Error("connection lost");
      heard = Date.now();
      lost = "";
      failures = 0;
      say(once ? `every ${pollEvery / 1000} s: ${most} other tabs are live` : "● live");
      const events = (rest + value).split("\n\n");
      rest = events.pop() ?? "";
      for (const event of events) {
        const member = (name: string): string => new RegExp(`^${name}: (.*)$`, "m").exec(event)?.[1] ?? "";
        const type = member("event");
        if (type) told(type, JSON.parse(member("data")));
        if (type === "done") return end("ended");
        if (type === "deleted") return end("deleted");
        const id = member("id");
        if (!id) continue;
        last = id; // and everything up to here was told
        if (once) return;
      }
    }
  }

  const wait = (ms: number, signal: AbortSignal): Promise<void> =>
    new Promise((done) => {
      const timer = setTimeout(stop, ms);
      function stop(): void {
        clearTimeout(timer);
        signal.removeEventListener("abort", stop);
        done();
      }
      signal.addEventListener("abort", stop);
      if (signal.aborted) stop();
    });

  // hold calls back while this tab has one of the streams, from the given one on; or without.
  async function hold(which: number, body: (has: boolean) => Promise<void>): Promise<void> {
    if (!navigator.locks) return body(true); // they need TLS or this machine; without, nobody counts
    if (which === most) return body(false);
    let had = false;
    await navigator.locks.request(`actlog stream ${which}`, { ifAvailable: true }, async (lock) => {
      had = lock !== null;
      if (had) await body(true);
    });
    if (!had) await hold(which + 1, body);
  }

  async function run(): Promise<void> {
    const mine = (listening = new AbortController());
    while (!mine.signal.aborted) {
      let next = pollEvery;
      await hold(0, async (has) => {
        const connection = new AbortController();
        const from = Date.now();
        const watch = setInterval(() => { if (Date.now() - Math.max(from, heard) > silence) connection.abort(); }, 1000);
        try {
          await read(AbortSignal.any([mine.signal, connection.signal]), !has);
        } catch (error) {
          if (mine.signal.aborted) return;
          if (error instanceof LoggedOut) return end(...loggedOut());
          lost = connection.signal.aborted || error instanceof TypeError ? "connection lost" : (error as Error).message;
          next = Math.min(30_000, 500 * 2 ** failures++) * (0.5 + Math.random());
        } finally {
          clearInterval(watch);
          connection.abort();
        }
      });
      tick();
      await wait(next, mine.signal);
    }
  }

  // tick says for how long nothing was heard. Who listens to the page is told once.
  function tick(): void {
    if (!lost || over || !listening) return;
    const since = document.createElement("span");
    since.setAttribute("aria-hidden", "true");
    since.textContent = `, last heard ${Math.round((Date.now() - heard) / 1000)} s ago`;
    const old = status.querySelector("[aria-hidden]");
    if (old && status.firstChild?.textContent === lost) old.textContent = since.textContent;
    else say(lost, since);
  }
  setInterval(tick, 1000);

  // change begins or stops to listen, as the page is seen and not paused.
  function change(): void {
    const wanted = !over && !paused && !document.hidden;
    if (wanted === (listening !== undefined)) return;
    listening?.abort();
    listening = undefined;
    if (wanted) void run();
    else if (paused) say("paused");
  }
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "resume" : "pause";
    lost = "";
    change();
  });
  function again(): void {
    listening?.abort();
    listening = undefined;
    change();
  }
  new BroadcastChannel(sessions).addEventListener("message", again);
  document.addEventListener("visibilitychange", change);
  window.addEventListener("pagehide", () => { listening?.abort(); listening = undefined; });
  window.addEventListener("pageshow", change);
  change();
  return { end };
}
