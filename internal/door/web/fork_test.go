package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestContinueFromHere: the detail of a row offers to continue from it, with the prompt of its agent, and leads to both
// runs side by side.
func TestContinueFromHere(t *testing.T) {
	t.Parallel()
	s := openShop(t, httpd.Config{})
	id := s.start("away")
	storetest.Until(t, "the run waits for its model", func() bool { return s.run(id).State == record.Paused })
	step := storetest.PlanTree(t, s.store, id).Steps[0].Record.StepID

	p := s.get("/runs/"+id+"?at=cycle:"+step+"/0", http.StatusOK)
	form := p.one("class", "fork")
	prompt, model := p.one("name", "systemPrompt"), p.one("name", "model")
	if text(prompt) != "You are a clerk." || attr(model, "value") != "default" {
		t.Errorf("it offers %q and %q", text(prompt), attr(model, "value"))
	}

	sent := url.Values{
		"action": {"fork"}, "at": {"cycle:" + step + "/0"}, "systemPrompt": {"Be <b>.\r\n"}, "key": {"k"},
	}
	var to string
	for range 2 { // asked twice, it starts one run
		r := s.send("POST", attr(form, "action"), sent.Encode())
		to = r.Header.Get("Location")
		if r.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, "/compare?a="+id+"&b=plan-") {
			t.Fatalf("%d to %s", r.StatusCode, to)
		}
	}

	forked := to[strings.LastIndex(to, "=")+1:]
	head := text(s.get("/runs/"+forked, http.StatusOK).one("class", "head"))
	if !strings.Contains(head, "goes on from ") {
		t.Errorf("the head of the fork: %s", head)
	}
	step = storetest.PlanTree(t, s.store, forked).Steps[0].Record.StepID
	again := s.get("/runs/"+forked+"?at=step:"+step, http.StatusOK)
	if got := text(again.one("name", "systemPrompt")); got != "Be <b>." {
		t.Errorf("the fork has the prompt %q", got)
	}

	for name, at := range map[string]string{"no row": "cycle:x/0", "of a plan": "plan:" + id} {
		sent.Set("at", at)
		if r := s.send("POST", attr(form, "action"), sent.Encode()); r.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", name, r.StatusCode)
		}
	}
}
