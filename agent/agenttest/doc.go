// Package agenttest helps to test agents: [Model] answers as a script says, [Database] lends a Postgres to a test, and
// [Replay] plays a recorded run against the code of today. It is for tests only: a program that runs agents does not
// link it.
package agenttest
