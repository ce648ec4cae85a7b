package record

import (
	"encoding/json"
	"time"
)

// ThinkAct is one think-act cycle of a step: one model call, then the tool calls that it
// asked for. Seq counts from 0. InputTokens include cached tokens. Costs are in US dollars.
// Costs that are not set are computed from the model's prices, character counts from the
// texts.
type ThinkAct struct {
	RootPlanID               string          `record:"rootPlanId,key"`
	StepID                   string          `record:"stepId,key"`
	Seq                      int64           `record:"seq,key,small"`
	Rev                      *int64          `record:"rev,revision"`
	ThinkStartTime           *time.Time      `record:"thinkStartTime,least,scoped,alias=startTime"`
	ThinkEndTime             *time.Time      `record:"thinkEndTime,greatest,scoped,alias=endTime"`
	FirstTokenTime           *time.Time      `record:"firstTokenTime,scoped"`
	ActStartTime             *time.Time      `record:"actStartTime,least,scoped"`
	ActEndTime               *time.Time      `record:"actEndTime,greatest,scoped"`
	ThinkInput               *string         `record:"thinkInput,text"`
	ThinkOutput              *string         `record:"thinkOutput,text"`
	ActionDescription        *string         `record:"actionDescription,text"`
	ActionResult             *string         `record:"actionResult,text"`
	State                    *State          `record:"state,state,scoped,column=told_state,shown=state"`
	FinishReason             *string         `record:"finishReason,name"`
	ErrorMessage             *string         `record:"errorMessage,text,scoped,searched"`
	ErrorKind                *string         `record:"errorKind,name,scoped,searched"`
	InputCharCount           *int64          `record:"inputCharCount,column=told_input_char_count,shown=input_char_count"`
	OutputCharCount          *int64          `record:"outputCharCount,column=told_output_char_count,shown=output_char_count"`
	Provider                 *string         `record:"provider,name"`
	ModelName                *string         `record:"modelName,name"`
	InputTokens              *int64          `record:"inputTokens"`
	OutputTokens             *int64          `record:"outputTokens"`
	CacheReadInputTokens     *int64          `record:"cacheReadInputTokens"`
	CacheCreationInputTokens *int64          `record:"cacheCreationInputTokens"`
	ReasoningTokens          *int64          `record:"reasoningTokens"`
	CostUSD                  *float64        `record:"costUsd,decimal,column=told_cost_usd,shown=cost_usd"`
	Attempt                  *int64          `record:"attempt,attempt,min=1,small"`
	SpanID                   *string         `record:"spanId,id"`
	Metadata                 json.RawMessage `record:"metadata,object"`
	// ResponseID is the id that the provider gave the response of the model.
	ResponseID *string `record:"responseId,id"`
	// Message is the message of the model in the form that a runtime continues from: an object.
	Message json.RawMessage `record:"message,object"`
	// CacheCreation1hInputTokens are those of CacheCreationInputTokens that the cache keeps for an hour.
	CacheCreation1hInputTokens *int64 `record:"cacheCreation1hInputTokens,column=cache_creation_1h_input_tokens"`
	// FallbackFrom are the models that were to answer before the one that did, as a list of [Fallback], in the order in
	// which they were passed over.
	FallbackFrom json.RawMessage `record:"fallbackFrom,stringMaps"`

	// ThinkInputChars and ThinkOutputChars are counted from the texts before they are cut.
	// Clients do not set them.
	ThinkInputChars  *int64 `record:"thinkInputChars,charsOf=thinkInput"`
	ThinkOutputChars *int64 `record:"thinkOutputChars,charsOf=thinkOutput"`
	// ThinkInputParts are the hashes of what the text is kept in, if it is kept in parts. Clients do not
	// set them.
	ThinkInputParts [][]byte `record:"thinkInputParts,partsOf=thinkInput"`

	// Prices are in US dollars per million tokens. The store looks them up by the model's
	// name. Clients do not set them. Tariff has all of them, if they depend on the tokens of the call.
	InputPrice      *float64 `record:"inputPrice,of=modelName"`
	OutputPrice     *float64 `record:"outputPrice,of=modelName"`
	CacheReadPrice  *float64 `record:"cacheReadPrice,of=modelName"`
	CacheWritePrice *float64 `record:"cacheWritePrice,of=modelName"`

	Tariff json.RawMessage `record:"tariff,of=modelName,with=inputPrice"`

	// Messages are what people and programs said to the run, and the model was told from this cycle on: a list of
	// objects, each a [SteeringMessage].
	Messages json.RawMessage `record:"messages,objects"`
	// ForkedFrom is the row of another run that this one is a copy of, such as cycle:STEP/SEQ; nil: it is none. A copy
	// counts in no figure.
	ForkedFrom *string `record:"forkedFrom,address"`
}

// Fallback says why a model did not answer a cycle, so that the next one of its list was asked.
type Fallback struct {
	Model     string `json:"model"` // its name in the configuration
	ErrorKind string `json:"errorKind"`
	Error     string `json:"error"`
}

// Kind implements [Change].
func (t *ThinkAct) Kind() Kind { return KindThinkAct }

// Key implements [Change].
func (t *ThinkAct) Key() Key {
	return Key{Kind: KindThinkAct, Root: t.RootPlanID, Parent: t.StepID, Seq: t.Seq}
}

// Revision implements [Change].
func (t *ThinkAct) Revision() *int64 { return t.Rev }
