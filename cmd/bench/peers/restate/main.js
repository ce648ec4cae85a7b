// Runs agents on Restate, for the benchmark: its server, and a service of agents in this program.

import { spawn } from "node:child_process";
import { createServer as createHttp2Server } from "node:http2";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import * as restate from "@restatedev/restate-sdk";

for (const level of ["debug", "info", "log", "trace"]) console[level] = console.error; // answers have the output alone

const cycles = 10; // how often an agent thinks and then calls a tool
const script = JSON.parse(readFileSync(process.env.PEER_SCRIPT));
let next = 0;
let got = 0;
let firstCall;

function think() {
  firstCall ??= performance.now();
  return script.answers[next++ % script.answers.length];
}

function look() {
  return script.results[got++ % script.results.length];
}

// agent thinks and calls a tool. Each is a step, whose result is on record before the next.
const agent = restate.workflow({
  name: "agent",
  handlers: {
    run: async (ctx, request) => {
      const talk = [request];
      for (let i = 0; i < cycles; i++) {
        talk.push(await ctx.run("think", think));
        talk.push(await ctx.run("look", look));
      }
      return "done";
    },
  },
});

async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

async function post(url, body) {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  await answer.arrayBuffer();
}

const [fabric, ingress, admin] = [await freePort(), await freePort(), await freePort()];
const server = spawn(process.env.PEER_SERVER, ["--node-name", "bench", "--base-dir", process.env.PEER_DIR, "--no-logo"], {
  stdio: ["ignore", 2, 2],
  env: {
    ...process.env,
    RUST_LOG: "error",
    RESTATE_BIND_IP: "127.0.0.1",
    RESTATE_LISTEN_MODE: "tcp",
    RESTATE_DISABLE_TELEMETRY: "true",
    RESTATE_BIND_PORT: `${fabric}`,
    RESTATE_INGRESS__BIND_PORT: `${ingress}`,
    RESTATE_ADMIN__BIND_PORT: `${admin}`,
  },
});
const ended = new Promise((done) => server.on("exit", done));

const service = createHttp2Server(restate.createEndpointHandler({ services: [agent] }));
await new Promise((done) => service.listen(0, "127.0.0.1", done));
for (let tries = 0; ; tries++) {
  try {
    const uri = `http://127.0.0.1:${service.address().port}`;
    await post(`http://127.0.0.1:${admin}/deployments`, { uri, force: true });
    break;
  } catch (err) {
    if (tries === 300) throw err;
    await pause(100);
  }
}

function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

const versions = JSON.parse(readFileSync(new URL("package.json", import.meta.url))).dependencies;
say({
  version: `${versions["@restatedev/restate-server"]}, SDK ${versions["@restatedev/restate-sdk"]}`,
  server: server.pid,
});

let nth = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const [what, runs] = line.split(" ");
  const start = performance.now();
  firstCall = undefined;
  if (what === "bare") {
    for (let i = 0; i < Number(runs) * cycles; i++) [think(), look()];
  } else {
    const all = Array.from({ length: Number(runs) }, () =>
      post(`http://127.0.0.1:${ingress}/agent/${process.pid}-${nth++}/run`, "Go on."),
    );
    await Promise.all(all);
  }
  say({ took: (performance.now() - start) / 1000, first: (firstCall - start) / 1000 });
}

service.close();
server.kill("SIGTERM");
await ended;
process.exit(0);
