// Package tool owns what a tool of an agent is: its name, the schema of its arguments, the policy by
// which it is called, and its result. [Func] makes a tool of a Go function, [Set] keeps tools by
// name, [Do] calls one within its bounds.
//
// A tool does not know who calls it, and nothing here keeps a record. Approvals, retries and what
// happens after a crash follow from the [Policy] and are the work of the caller.
package tool
