package main

import (
	"github.com/actlog/actlog/internal/door/api"
	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/door/mcp"
	"github.com/actlog/actlog/internal/door/runapi"
	"github.com/actlog/actlog/internal/door/web"
	"github.com/actlog/actlog/internal/runtime/catalog"
	"github.com/actlog/actlog/internal/trace/receive"
)

// door is a way into the server.
type door struct {
	// waiting returns what is served until there is a record, which refuses all with an error; nil: nothing.
	waiting func(why func() error) []httpd.Route
	// open returns what is served from then on. The metrics of the door are registered, too.
	open func(s *server) []httpd.Route
}

// doors are all of them, in the order in which they are opened.
var doors = []door{
	{api.Waiting, func(s *server) []httpd.Route {
		s.http.Register(api.Metrics(s.store, s.upkeep, s.hub))
		return api.New(s.store, s.lookup, s.hub, s.http, api.Config{}).Routes()
	}},
	{nil, func(s *server) []httpd.Route {
		s.runnable = catalog.New(s.agents.source, s.store)
		s.runs = runapi.New(s.store, s.agents.engine, s.agents.source, s.http, runapi.Config{
			Redact: s.agents.source.Redact, Runnable: s.runnable,
		})
		return s.runs.Routes()
	}},
	{web.Waiting, func(s *server) []httpd.Route {
		runtime := web.Runtime{
			Starter: s.runs, Catalog: s.agents.source, Runnable: s.runnable, Redact: s.agents.source.Redact,
		}
		return web.New(s.store, s.lookup, s.hub, s.http, api.RowJSON, runtime).Routes()
	}},
	{nil, func(s *server) []httpd.Route {
		return mcp.New(s.lookup, s.reports, s.http, mcp.Config{Version: serverVersion()}).Routes()
	}},
	{receive.Waiting, func(s *server) []httpd.Route {
		s.receiver = receive.New(s.store, s.http, 0)
		return append(s.receiver.Routes(receive.DoorServer), s.receiver.Unknown())
	}},
}
