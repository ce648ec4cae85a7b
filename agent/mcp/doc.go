// Package mcp owns the tools of MCP servers: programs that are started and spoken to over stdio, and
// servers over streamable HTTP. A [Pool] connects to a server when its tools are asked for, shares the
// connection among all that have the same configuration, connects again after the server died, and
// disconnects when nobody has used it for a while.
//
// A server is treated as hostile: what it says of its tools is bounded, a human approves each call, and its
// hints make nothing looser unless the configuration trusts it. It gets no environment variables but PATH, HOME and its
// own.
package mcp
