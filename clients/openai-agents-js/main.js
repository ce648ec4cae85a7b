import { z } from "zod";
import { OpenAIAgentsInstrumentation } from "@arizeai/openinference-instrumentation-openai-agents";
import * as agents from "@openai/agents";
import { NodeSDK } from "@opentelemetry/sdk-node";

const sdk = new NodeSDK();
sdk.start();
new OpenAIAgentsInstrumentation().manuallyInstrument(agents);

const { Agent, run, tool } = agents;
const model = "gpt-5";

const getWeather = tool({
  name: "get_weather",
  description: "Tells the weather.",
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => ({ Lisbon: "sun, 24 degrees", Porto: "rain, 17 degrees" })[city],
});
const findSights = tool({
  name: "find_sights",
  description: "Finds sights.",
  parameters: z.object({ city: z.string() }),
  execute: () => "castle, tram",
});
const bookTour = tool({
  name: "book_tour",
  description: "Books a tour.",
  parameters: z.object({ sight: z.string() }),
  execute: () => {
    throw new Error("sold out");
  },
});

const forecaster = new Agent({ name: "forecaster", instructions: "You forecast the weather.", model, tools: [getWeather] });
const guide = new Agent({ name: "guide", instructions: "You guide visitors.", model, tools: [findSights, bookTour] });
const planner = new Agent({
  name: "planner",
  instructions: "You plan trips.",
  model,
  tools: [
    forecaster.asTool({ toolName: "ask_forecaster", toolDescription: "Asks about the weather." }),
    guide.asTool({ toolName: "ask_guide", toolDescription: "Asks about sights." }),
  ],
});

console.log((await run(planner, "Where to on Sunday?")).finalOutput);
await sdk.shutdown();
