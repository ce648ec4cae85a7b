package rounds

import (
	"fmt"
	"slices"
	"strings"

	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool"
)

// The texts that models read.

const (
	// failedPrefix begins the answer of an agent that could not do its step.
	failedPrefix = "FAILED:"

	chooseATool = "You have not called a tool yet. Call one of yours."
	giveAnswer  = "Answer with the result of your step."
	noRoundLeft = "You have used all of your rounds, so no more calls are made. Answer now: what you found, what you " +
		"did, and what " +
		"is left to do. If the step is not done, begin with " + failedPrefix
)

// HowToAnswer says how an agent ends its work with [Answering].
const HowToAnswer = "Call your tools, several at once if they do not need each other. Read what they return. If a " +
	"call fails, read why, and call again " +
	"with what is right. When the step is done, answer without a call: your answer is the result of the step. " +
	"If it cannot be done, answer with " + failedPrefix + " and why."

// maxWorkSoFar bounds what a summary is made from, in characters.
const maxWorkSoFar = 200_000

// maxUnsummarised bounds what an agent goes on from that wrote no summary, in characters.
const maxUnsummarised = 20_000

func summariseFor(base, talk []model.Message) string {
	return "The task:\n" + base[len(base)-1].Text() + "\n\nThe work so far:\n" + workSoFar(base, talk, maxWorkSoFar) +
		"\nSummarise the work so far for whoever goes on with it: what is known, with names, places and figures; " +
		"what was tried and did not work; what is left to do. Do not repeat what leads nowhere."
}

// workSoFar tells a conversation, the end of it if it is longer than so many characters.
func workSoFar(base, talk []model.Message, most int) string {
	var texts []string
	for i := len(talk) - 1; i >= len(base) && most > 0; i-- { // what came last counts most
		text := tool.Cut(tell(talk[i]), min(most, 10_000))
		texts, most = append(texts, text), most-len(text)
	}

	var b strings.Builder
	for _, text := range slices.Backward(texts) {
		b.WriteString(text + "\n")
	}
	return b.String()
}

func tell(m model.Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		switch {
		case p.Call != nil:
			fmt.Fprintf(&b, "Called %s with %s\n", p.Call.Name, p.Call.Arguments)
		case p.Result != nil:
			fmt.Fprintf(&b, "%s returned: %s\n", p.Result.Name, p.Result.Text)
		case p.Text != "":
			fmt.Fprintf(&b, "%s: %s\n", m.Role, p.Text)
		}
	}
	return b.String()
}

// goOnFrom is what an agent is told of the work that it no longer sees.
func goOnFrom(summary string) string {
	return "A summary of your work so far:\n" + summary +
		"\n\nGo on from here. If what you tried returned the same again and again, try something else."
}
