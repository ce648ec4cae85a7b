import { openai } from "@ai-sdk/openai";
import { tool, ToolLoopAgent } from "ai";
import { z } from "zod";
import { OpenTelemetry } from "@ai-sdk/otel";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { registerTelemetry } from "ai";

const sdk = new NodeSDK();
sdk.start();
registerTelemetry(new OpenTelemetry());

const agent = (name, instructions, tools) =>
  new ToolLoopAgent({ model: openai.chat("gpt-5"), instructions, tools, telemetry: { functionId: name } });
const ask = (asked, description) =>
  tool({
    description,
    inputSchema: z.object({ input: z.string() }),
    execute: async ({ input }) => (await asked.generate({ prompt: input })).text,
  });

const forecaster = agent("forecaster", "You forecast the weather.", {
  get_weather: tool({
    description: "Tells the weather.",
    inputSchema: z.object({ city: z.string() }),
    execute: ({ city }) => ({ Lisbon: "sun, 24 degrees", Porto: "rain, 17 degrees" })[city],
  }),
});
const guide = agent("guide", "You guide visitors.", {
  find_sights: tool({
    description: "Finds sights.",
    inputSchema: z.object({ city: z.string() }),
    execute: () => "castle, tram",
  }),
  book_tour: tool({
    description: "Books a tour.",
    inputSchema: z.object({ sight: z.string() }),
    execute: () => {
      throw new Error("sold out");
    },
  }),
});
const planner = agent("planner", "You plan trips.", {
  ask_forecaster: ask(forecaster, "Asks about the weather."),
  ask_guide: ask(guide, "Asks about sights."),
});

console.log(await (await planner.stream({ prompt: "Where to on Sunday?" })).text);
await sdk.shutdown();
