//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/actlog/actlog/internal/testkit/scriptmodel"
)

// messagesEach is how many messages are sent to a run.
const messagesEach = 3

// toldAgent is an agent that is told messages. Its answer says which, and how often.
const toldAgent = "told"

// told is a run to which the driver sends messages. How many cycles it has depends on when it reads them, so only its
// tool calls are compared.
var told = kind{name: toldAgent, request: agentRun(toldAgent).request, beside: (*house).sendMessages, callsOnly: true}

// sendMessages sends messages to a run until it has ended. Those that were accepted are kept.
func (h *house) sendMessages(ctx context.Context, r *oneRun) {
	for n := range messagesEach {
		key := fmt.Sprintf("%s-message-%d", r.about, n)
		pause(ctx, time.Duration(h.pick(key, 4000))*time.Millisecond)
		message := object{"text": "Mind " + key + ".", "when": []string{"next", "interrupt"}[h.pick(key+" when", 2)]}

		var first, again struct{ MessageID string }
		if h.call(ctx, http.MethodPost, "/runs/"+r.planID+"/messages", key, message, &first) != http.StatusAccepted {
			return // the run has ended
		}
		if h.call(ctx, http.MethodPost, "/runs/"+r.planID+"/messages", key, message, &again) == http.StatusAccepted &&
			first != again {
			h.violated("plan %s: message %s is %s, and %s when it was sent again", r.planID, key, first.MessageID,
				again.MessageID)
		}

		h.mu.Lock()
		r.said = append(r.said, key)
		h.mu.Unlock()
	}
}

var said = regexp.MustCompile(`Mind (\S+)\.`)

// toldAnswer is the answer of the agent: the messages in the conversation.
func toldAnswer(r *scriptmodel.Request) string {
	all := []string{toldAgent, "heard"}
	for _, m := range r.Messages {
		if m.Role != "user" {
			continue
		}
		for _, match := range said.FindAllStringSubmatch(string(m.Content), -1) {
			all = append(all, match[1])
		}
	}
	return strings.Join(all, " ")
}

// checkMessages checks that each message that was accepted is on record once, and was read once, or the run was stopped
// before.
func (h *house) checkMessages(ctx context.Context) (rows [][2]any, err error) {
	sent, read := 0, 0
	for _, r := range h.runs {
		if r.kind.name != toldAgent || r.of != nil {
			continue
		}

		onRecord, err := h.messagesOf(ctx, r.planID)
		if err != nil {
			return nil, err
		}

		var texts, wereRead []string
		for _, m := range onRecord {
			texts = append(texts, m.Text)
			switch {
			case m.State == "READ" && m.Cycles == 1 && m.InItsCycle:
				wereRead = append(wereRead, m.Text)
			case m.State != "UNREAD" || m.Cycles > 0 || !m.Stopped:
				h.violated("plan %s: message %q is %s, and was read in %d cycles", r.planID, m.Text, m.State, m.Cycles)
			}
		}

		if !slices.Equal(texts, r.said) {
			h.violated("plan %s: it was told %q, and %q is on record", r.planID, r.said, texts)
		}
		answer, ok := strings.CutPrefix(r.answer(), toldAgent+" heard")
		if heard := strings.Fields(answer); !ok || !slices.Equal(heard, wereRead) {
			h.violated("plan %s: its cycles read %q, and its model was told %q", r.planID, wereRead, heard)
		}
		sent, read = sent+len(r.said), read+len(wereRead)
	}
	return [][2]any{{"messages", fmt.Sprintf("%d, %d of them read", sent, read)}}, nil
}

// message is one on record: its text, and in how many cycles it is.
type message struct {
	Text, State string
	Cycles      int
	InItsCycle  bool
	Stopped     bool // the run was, after the message
}

const messagesSQL = `SELECT regexp_replace(m.text, '^Mind (.*)\.$', '\1'), m.state, count(c.seq), COALESCE(bool_and(c.step_id = m.step_id AND c.seq = m.seq), false),
			EXISTS (SELECT FROM actlog.control_request AS s WHERE s.root_plan_id = m.root_plan_id AND s.action = 'STOP' AND s.applied_at >= m.created_at)
		FROM actlog.run_message AS m LEFT JOIN (
			SELECT c.root_plan_id, c.step_id, c.seq, x.value->>'messageId' AS message_id FROM actlog.think_act_record AS c CROSS JOIN LATERAL jsonb_array_elements(c.messages::jsonb) AS x
			WHERE c.messages IS NOT NULL
		) AS c USING (root_plan_id, message_id)
		WHERE m.root_plan_id = $1 GROUP BY m.root_plan_id, m.message_id, m.text, m.state, m.created_at, m.number ORDER BY m.number`

// messagesOf returns the messages of a run, in the order in which they were read.
func (h *house) messagesOf(ctx context.Context, planID string) ([]message, error) {
	rows, err := h.db.Query(ctx, messagesSQL, planID)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[message])
}
