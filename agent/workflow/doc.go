// Package workflow has what workflows are made of and what they return: agents that talk over several turns,
// chains of them, and workflows that are functions of a program.
package workflow
