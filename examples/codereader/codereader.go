// Package codereader is an example of agents that run on their own record: one reads the code in a folder
// and answers a question about it, and hands parts of the question to others.
package codereader

import (
	"github.com/actlog/actlog/agent"
	"github.com/actlog/actlog/agent/model"
	"github.com/actlog/actlog/agent/tool/files"
)

// The agents.
const (
	Reader     = "code-reader" // answers a question
	Researcher = "researcher"  // answers a part of it, or has parts of that researched
)

// The prompts are short on purpose: each tool has its own description.
const (
	readerPrompt = `You are a code reader. You answer a question about the code in a folder, from what its files truly say.
Look around with list_files and search_in_files, read what matters with read_file, and hand parts of the question that stand on their own to researchers; several tool calls in one turn run at the same time.
Your answer names the files it relies on, with line numbers.`

	researcherPrompt = `You are a code researcher. Another agent hands you one question about the code in a folder; your answer is all it gets to see.
Answer in a few sentences. Name the files you rely on, with line numbers. Say so when the code does not tell.`
)

// Parts returns the agents, their model, and the tools for a folder of code. maxSteps is the number of
// rounds after which an agent must answer; 0 means 30.
func Parts(m model.Model, folder *files.Folder, maxSteps int) agent.Parts {
	tools := []string{"files.list_files", "files.read_file", "files.search_in_files", "agent." + Researcher}
	return agent.Parts{
		Models: map[string]model.Model{"default": m},
		Tools:  folder.Tools(),
		Agents: map[string]agent.Agent{
			Reader: {
				Description: "Answers a question about the code in a folder.", SystemPrompt: readerPrompt, Tools: tools,
				MaxSteps: maxSteps,
			},
			Researcher: {
				Description:  "Answers a question about the code that stands on its own. It knows nothing but the question.",
				SystemPrompt: researcherPrompt, Tools: tools, MaxSteps: maxSteps,
			},
		},
	}
}
