package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/testkit/storetest"
	"github.com/actlog/actlog/record"
)

// TestConversation: the newest runs of a conversation stand in their order, with what was asked and answered; a link
// leads to the earlier ones.
func TestConversation(t *testing.T) {
	t.Parallel()
	s := open(t, httpd.Config{})
	for i := range 22 {
		root := fmt.Sprintf("run-%02d", i)
		storetest.Write(t, s.store, &record.Plan{
			RootPlanID: root, CurrentPlanID: root, ConversationID: new("a/b <i>"), State: new(record.Completed),
			UserRequest: new(fmt.Sprint("<b>goal ", i)), Summary: new("answer " + strings.Repeat("é", 4_000)),
		})
	}
	storetest.Write(t, s.store, &record.Plan{
		RootPlanID: "last", CurrentPlanID: "last", ConversationID: new("a/b <i>"), State: new(record.Failed),
		ErrorMessage: new("it broke"),
	})

	articles := func(p *page) (all []string) {
		for n := range p.root.Descendants() {
			if n.Type == html.ElementNode && n.Data == "article" {
				all = append(all, text(n))
			}
		}
		return all
	}

	path := "/conversations/" + url.PathEscape("a/b <i>")
	p := s.get(path, http.StatusOK)
	all := articles(p)
	if len(all) != 20 || !strings.HasPrefix(all[0], "run-03 ✓ completed") ||
		!strings.Contains(all[0], "goal <b>goal 3 answer answer éé") || !strings.Contains(all[0], "All of it is in the run") {
		t.Errorf("%d runs, the first is %.200s", len(all), all[0])
	}
	if !strings.HasPrefix(all[19], "last ✗ failed") || !strings.HasSuffix(all[19], "it broke") {
		t.Errorf("the last is %s", all[19])
	}

	earlier := s.get(attr(p.one("rel", "prev"), "href"), http.StatusOK)
	if all := articles(earlier); len(all) != 3 || !strings.HasPrefix(all[0], "run-00") ||
		len(earlier.all("rel", "prev")) > 0 {
		t.Errorf("before them: %.200q", all)
	}
	if newer := s.get(
		attr(p.one("class", "conversation"), "data-newer"), http.StatusOK,
	); len(newer.all("name", "run")) > 0 {
		t.Error("there are newer ones")
	}

	s.get("/conversations/none", http.StatusNotFound)
	s.get(path+"?state=FAILED", http.StatusBadRequest)
}
