//go:build linux

package main

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// The whole record of a plan is derived from its id: the number of its steps, cycles and tool calls,
// and all their texts. So the ledger only needs to say which of them were acknowledged.

// pick returns a number below n that is derived from key.
func pick(key string, n int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum64() >> 1 % uint64(n))
}

// text returns the text of a field of the item id.
func text(field, id string) string {
	if field == input {
		return promptOf(id)
	}
	key := field + " of " + id
	return key + strings.Repeat(" é"+key[:4], pick(key, 60))
}

const input = "input"

// promptOf returns the prompt of a cycle. Some are short. The others begin as all prompts of the plan do,
// and repeat what was said in the cycles before, so that the record keeps them in parts.
func promptOf(cycle string) string {
	step, number := cutLast(cycle, "-c")
	plan, _ := cutLast(step, "-s")
	last, err := strconv.Atoi(number)
	if err != nil || pick(step+"talks", 3) > 0 {
		key := input + " of " + cycle
		return key + strings.Repeat(" é"+key[:4], pick(key, 60))
	}

	var b strings.Builder
	if pick(step+"clock", 4) == 0 { // what does not repeat may stand in front
		b.WriteString("At " + cycle + ". ")
	}
	say(&b, "The rules of "+rootOf(plan), 9_000)
	for n := range last + 1 {
		say(&b, fmt.Sprintf("Turn %d of %s", n, step), 3_000)
	}
	return b.String()
}

// say writes words that only this speaker says.
func say(b *strings.Builder, speaker string, bytes int) {
	b.WriteString(speaker + ":")
	for i, end := 0, b.Len()+bytes; b.Len() < end; i++ {
		fmt.Fprintf(b, " é%x", pick(speaker+strconv.Itoa(i), 1<<40))
	}
	b.WriteByte('\n')
}

// cutLast cuts a text at the last separator.
func cutLast(s, separator string) (before, after string) {
	if i := strings.LastIndex(s, separator); i >= 0 {
		return s[:i], s[i+len(separator):]
	}
	return s, ""
}

func tokens(field, id string) int64 { return int64(1 + pick(field+id, 1000)) }

func stepCount(plan string) int {
	if isSub(plan) {
		return 1
	}
	return 1 + pick(plan+"steps", 2)
}

func cycleCount(step string) int { return 1 + pick(step+"cycles", 3) }

// toolCount returns the number of tool calls of a cycle: a few, sometimes many, because the calls of
// one cycle are written in one transaction.
func toolCount(cycle string) int {
	if pick(cycle+"many", 24) == 0 {
		return 40
	}
	return 1 + pick(cycle+"tools", 3)
}

const subSuffix = ".sub"

func isSub(plan string) bool { return strings.HasSuffix(plan, subSuffix) }

// hasSub reports whether the first tool call of the plan starts a sub-plan.
func hasSub(plan string) bool { return !isSub(plan) && pick(plan+"sub", 4) == 0 }

func rootOf(plan string) string { return strings.TrimSuffix(plan, subSuffix) }

func stepID(plan string, s int) string      { return fmt.Sprintf("%s-s%d", plan, s) }
func cycleID(step string, c int) string     { return fmt.Sprintf("%s-c%d", step, c) }
func toolCallID(cycle string, t int) string { return fmt.Sprintf("%s-t%d", cycle, t) }

// The items of a ledger: a start has the id of what starts. Other items have the id and a word.
func thinkOf(cycle string) string { return cycle + " think" }
func endOf(id string) string      { return id + " end" }

// mode is how a client records. It is the first letter of the ids of its plans.
type mode byte

const (
	// A direct call returns when the server has acknowledged it.
	modeDirect mode = 'd'
	// A buffered run is acknowledged by a flush at its end.
	modeBuffer mode = 'b'
	// A record in a spool survives the client and arrives later.
	modeSpool mode = 's'
)

func modeOf(plan string) mode { return mode(plan[0]) }
