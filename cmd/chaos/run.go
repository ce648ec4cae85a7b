//go:build linux

package main

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// Everything that is recorded of a plan follows from its id: how many steps,
// cycles and tool calls it has, and what each of them says. So a ledger need only
// keep which of them were acknowledged.

// pick gives a number below n that belongs to key.
func pick(key string, n int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum64() >> 1 % uint64(n))
}

// text gives what field says, of what goes by id.
func text(field, id string) string {
	key := field + " of " + id
	return key + strings.Repeat(" é"+key[:4], pick(key, 60))
}

func tokens(field, id string) int64 { return int64(1 + pick(field+id, 1000)) }

func stepCount(plan string) int {
	if isSub(plan) {
		return 1
	}
	return 1 + pick(plan+"steps", 2)
}

func cycleCount(step string) int { return 1 + pick(step+"cycles", 3) }

// toolCount gives the calls of a cycle: a few, sometimes many, since what is asked
// for together is one transaction.
func toolCount(cycle string) int {
	if pick(cycle+"many", 24) == 0 {
		return 40
	}
	return 1 + pick(cycle+"tools", 3)
}

const subSuffix = ".sub"

func isSub(plan string) bool { return strings.HasSuffix(plan, subSuffix) }

// hasSub tells whether the first tool call of the plan starts a sub-plan.
func hasSub(plan string) bool { return !isSub(plan) && pick(plan+"sub", 4) == 0 }

func rootOf(plan string) string { return strings.TrimSuffix(plan, subSuffix) }

func stepID(plan string, s int) string      { return fmt.Sprintf("%s-s%d", plan, s) }
func cycleID(step string, c int) string     { return fmt.Sprintf("%s-c%d", step, c) }
func toolCallID(cycle string, t int) string { return fmt.Sprintf("%s-t%d", cycle, t) }

// What a ledger names: a start by the id of what starts, the others by that and
// what happens to it.
func thinkOf(cycle string) string { return cycle + " think" }
func endOf(id string) string      { return id + " end" }

// mode is how a client records. It is the first letter of its plans' ids.
type mode byte

const (
	// Direct calls return when the server has acknowledged them.
	modeDirect mode = 'd'
	// A buffered run is acknowledged by a flush at its end.
	modeBuffer mode = 'b'
	// What a spool took survives the client, and arrives later.
	modeSpool mode = 's'
)

func modeOf(plan string) mode { return mode(plan[0]) }
