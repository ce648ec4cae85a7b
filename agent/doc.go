// Package agent runs agents from a Go program. The rows that a run leaves in Postgres are all that is
// needed to go on with it after a crash: there is no second history.
//
//	a, err := agent.Open(ctx, databaseURL, agent.Options{})
//	err = a.Register(agent.Parts{
//		Models: map[string]model.Model{"default": m},
//		Tools:  []tool.Tool{weather},
//		Agents: map[string]agent.Agent{"guide": {SystemPrompt: "You plan walks.", Tools: []string{"weather"}}},
//	})
//	go a.Work(ctx) // here, or in any other process that registers the same
//	planID, err := a.Start(ctx, agent.Job{Work: agent.Request{Agent: "guide", Request: "Where shall we walk tomorrow?"}})
//	run, err := a.Wait(ctx, planID)
//
// Models come from packages [model/openai] and [model/anthropic] or are the program's own. Tools are Go
// functions ([tool.Func]), toolsets ([tool/files], [tool/git], [tool/code], [tool/search], [tool/tests], [tool/http],
// [tool/db], [tool/shell], [tool/docker]) and those of MCP servers. What a tool may do without asking, and what happens
// to a call whose worker was lost, is its [tool.Policy]. A configuration file can name the toolset code only in a
// program that imports it, because its parsers make a program larger:
// import _ "github.com/actlog/actlog/agent/tool/code".
//
// A run goes on in whatever process has what it needs: the executor, the model, the MCP servers, and the
// tools that its agent names. Until there is one the run stays PENDING, and [Run.WaitingFor] says why. So
// programs that register different agents can share a database, and so can commands of actlog.
//
// [model/openai]: https://pkg.go.dev/github.com/actlog/actlog/agent/model/openai
// [model/anthropic]: https://pkg.go.dev/github.com/actlog/actlog/agent/model/anthropic
// [tool/files]: https://pkg.go.dev/github.com/actlog/actlog/agent/tool/files
// [tool/git]: https://pkg.go.dev/github.com/actlog/actlog/agent/tool/git
// [tool/code]: https://pkg.go.dev/github.com/actlog/actlog/agent/tool/code
// [tool/search]: https://pkg.go.dev/github.com/actlog/actlog/agent/tool/search
// [tool/tests]: https://pkg.go.dev/github.com/actlog/actlog/agent/tool/tests
// [tool/http]: https://pkg.go.dev/github.com/actlog/actlog/agent/tool/http
// [tool/db]: https://pkg.go.dev/github.com/actlog/actlog/agent/tool/db
// [tool/shell]: https://pkg.go.dev/github.com/actlog/actlog/agent/tool/shell
// [tool/docker]: https://pkg.go.dev/github.com/actlog/actlog/agent/tool/docker
// [tool.Func]: https://pkg.go.dev/github.com/actlog/actlog/agent/tool#Func
// [tool.Policy]: https://pkg.go.dev/github.com/actlog/actlog/agent/tool#Policy
package agent
