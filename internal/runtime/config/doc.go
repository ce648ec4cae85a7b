// Package config reads the configuration file of the runtime, checks all of it, and makes of it what
// runs need: models, tools, the addresses of MCP servers, and the definitions of agents.
//
// [Load] reads a file in YAML or JSON, and returns every mistake with its line. [Config.Open] makes the
// [Parts]. A [Current] keeps those of the configuration that is in force, and replaces them when the
// file is loaded again.
//
// What comes from an environment variable is secret, and so are API keys, and the environment and
// headers of MCP servers: see [Value].
package config
