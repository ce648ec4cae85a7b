// Package define owns what an agent, a workflow, a plan template, a role, the orchestrator and graphs are to the
// runtime, and what a run pins of them when it starts. A configuration file and a program define them alike. Their JSON
// is on record with each run.
package define
