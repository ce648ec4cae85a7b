package codereader

import "fmt"

// The prompts are short on purpose: each tool has its own description.
const (
	readerPrompt = `You are a code reader. You answer a question about the code in a folder, from what its files truly say.
Look around with list_files and search, read what matters with read_file, and hand parts of the question that stand on their own to research; several tool calls in one turn run at the same time.
When you know enough, answer in plain text without calling a tool. Name the files you rely on, with line numbers.`

	researcherPrompt = `You are a code researcher. Another agent hands you one question about the code in a folder; your answer is all it gets to see.
Look for it with the tools and answer in a few sentences of plain text, without calling a tool. Name the files you rely on, with line numbers. Say so when the code does not tell.`
)

// lastRoundPrompt starts the last round, which has no tools.
func lastRoundPrompt(rounds int) string {
	return fmt.Sprintf("You have used all of your %d rounds. Answer now from what you have seen, and say what you could not find out.", rounds)
}
