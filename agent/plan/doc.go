// Package plan has the result of a task that executor plan worked on: what was done, what came of it, and why.
package plan
