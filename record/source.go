package record

import "encoding/json"

// Source is a reference to something that an agent read and relied on. RelevanceScore is from 0 to 1.
type Source struct {
	RootPlanID     string          `record:"rootPlanId,key"`
	PlanID         string          `record:"planId,key"`
	SourceID       string          `record:"sourceId,key"`
	Rev            *int64          `record:"rev,revision"`
	StepID         *string         `record:"stepId,id"`
	ToolCallID     *string         `record:"toolCallId,id"`
	URI            *string         `record:"uri,text"`
	Type           *SourceType     `record:"type,enum"`
	LineStart      *int64          `record:"lineStart,small"`
	LineEnd        *int64          `record:"lineEnd,small"`
	Snippet        *string         `record:"snippet,text"`
	Description    *string         `record:"description,text"`
	RelevanceScore *float64        `record:"relevanceScore,fraction"`
	Metadata       json.RawMessage `record:"metadata,object"`

	// ForkedFrom is the source of another run that this one is a copy of, as source:SOURCE; nil: it is none. A copy
	// counts in no figure.
	ForkedFrom *string `record:"forkedFrom,address"`
}

// SourceType says what a source reference leads to.
type SourceType string

// The source types.
const (
	SourceFile          SourceType = "FILE"
	SourceURL           SourceType = "URL"
	SourceClass         SourceType = "CLASS"
	SourceCommit        SourceType = "COMMIT"
	SourceDocumentation SourceType = "DOCUMENTATION"
	SourceSnippet       SourceType = "SNIPPET"
	SourceEmbedding     SourceType = "EMBEDDING"
)

// Kind implements [Change].
func (s *Source) Kind() Kind { return KindSource }

// Key implements [Change].
func (s *Source) Key() Key {
	return Key{Kind: KindSource, Root: s.RootPlanID, Parent: s.PlanID, ID: s.SourceID}
}

// Revision implements [Change].
func (s *Source) Revision() *int64 { return s.Rev }
