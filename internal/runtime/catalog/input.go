package catalog

import "encoding/json"

// inputs are the JSON schemas of what the executors are given, by kind. A template of executor plan has its
// placeholders instead.
var inputs = map[string]json.RawMessage{
	"agent": json.RawMessage(`{"type":"object","required":["agent","request"],"properties":{` +
		`"agent":{"type":"string"},"request":{"type":"string"},"history":{"type":"array","maxItems":1000,"items":{"type":"object",` +
		`"required":["role","content"],"properties":{"role":{"enum":["user","assistant"]},"content":{"type":"string"}}}}}}`),
	"plan": json.RawMessage(`{"type":"object","description":"Without a name: a task. With the name of a template: a text for each placeholder.",` +
		`"properties":{"task":{"type":"string"},"context":{"type":"string"},"role":{"type":"string"},"constraints":{"type":"object"},"enableWrite":{"type":"boolean"}}}`),
	"orchestrator": json.RawMessage(`{"type":"object","required":["request"],"properties":{"request":{"type":"string"},` +
		`"mode":{"enum":["agent","chat"]},"maxPlanSteps":{"type":"integer"},"executionTimeout":{"type":"number"}}}`),
	"workflow": json.RawMessage(`{"type":"object","description":"agent with user_message or messages, or workflow with input.","properties":{` +
		`"agent":{"type":"string"},"user_message":{"type":"string"},"messages":{"type":"array"},"system_prompt":{"type":"string"},` +
		`"force_include_history":{"type":"boolean"},"workflow":{"type":"string"},"type":{"enum":["simple_workflow","custom_workflow"]},"input":{}}}`),
	"dag": json.RawMessage(`{"type":"object","description":"A prompt, or a graph that was planned before.","properties":{` +
		`"prompt":{"type":"string"},"plan_id":{"type":"string"},"provider":{"type":"string"},"model":{"type":"string"},"scheduling":{"type":"string"}}}`),
}
