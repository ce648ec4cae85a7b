package engine

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/actlog/actlog/agent/redact"
)

// TestLiveText checks that an answer is shown as it is on record, and that no part of a secret is ever
// shown, however the answer arrives.
func TestLiveText(t *testing.T) {
	t.Parallel()
	redactor, err := redact.New("api-key", "bearer-token", "email", "private-key", "credit-card")
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{
		"sk-abcdefghijklmnopqrstuvwxyz0123456789", "eyJtoken.secret-token-that-is-long", "ann.other@example.org",
		"MIIEpAIBAAKCAQEA7bq", "5555 5555 5555 4444",
	}

	answer := strings.Repeat("Some words come first. ", 10) + "The key is " + secrets[0] +
		". Send Authorization: Bearer " + secrets[1] + " to " + secrets[2] +
		". Größe 漢字, " + strings.Repeat("漢字", 60) + "\n-----BEGIN RSA PRIVATE KEY-----\n" + secrets[3] + "\n" +
		strings.Repeat("abc\n", 40) + "-----END RSA PRIVATE KEY-----\nPaid with " + secrets[4] + ". The end."
	clean, _ := redactor.Text(answer)
	for range 200 {
		var now strings.Builder
		pieces := 0
		l := &liveText{
			redact: func(text string) string { text, _ = redactor.Text(text); return text },
			delta: func(text string) {
				pieces++
				now.WriteString(text)
				for _, s := range secrets {
					if words := strings.Fields(s); strings.Contains(now.String(), words[0]) &&
						strings.Contains(now.String(), words[len(words)-1]) {
						t.Fatalf("shown: %s", now.String())
					}
				}
				if !utf8.ValidString(text) {
					t.Fatalf("half a character: %q", text)
				}
			},
			reset:  now.Reset,
			stable: redactor.Settling(),
		}

		for at := 0; at < len(answer); {
			n := min(1+rand.IntN(30), len(answer)-at)
			l.last = l.last.AddDate(0, 0, -1) // it is time to show more
			l.add(answer[at : at+n])
			at += n
		}
		if l.end(); now.String() != clean || pieces < 10 {
			t.Fatalf("shown in %d pieces: %s", pieces, now.String())
		}
	}
}

// What is long open is not shown, however much comes after where it begins.
func TestLiveTextHoldsBack(t *testing.T) {
	t.Parallel()
	redactor, err := redact.New(`(?s)<private>.*?</private>`)
	if err != nil {
		t.Fatal(err)
	}

	synctest.Test(t, func(t *testing.T) {
		var shown strings.Builder
		l := &liveText{
			redact: func(text string) string { text, _ = redactor.Text(text); return text }, stable: redactor.Settling(),
			delta: func(text string) { shown.WriteString(text) }, reset: shown.Reset,
		}
		asked, settled := 0, l.stable
		l.stable = func(text string) int {
			asked += len(text) - l.upTo
			return settled(text)
		}

		l.add("Some words. <private>")
		for range 1000 {
			time.Sleep(liveEvery)
			l.add("it is only for me ")
			if shown.String() != "Some words. " {
				t.Fatalf("shown is %q", shown.String())
			}
		}
		if asked > 1<<20 { // 9 MB if it is asked each time
			t.Errorf("%d bytes were gone through", asked)
		}

		time.Sleep(liveEvery)
		l.add("</private> And more")
		if l.end(); shown.String() != "Some words. [redacted] And more" {
			t.Errorf("at the end, shown is %q", shown.String())
		}
	})
}

// X3: what arrives is shown as soon as it may be, without a lag where nothing is replaced, and also where nothing comes
// after it.
func TestLiveTextDoesNotLag(t *testing.T) {
	t.Parallel()
	emails, err := redact.New("email")
	if err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		name    string
		settled func(string) int
		want    string // of what was shown when all has arrived
	}{
		{"nothing is replaced", (*redact.Redactor)(nil).Settling(), "Some words, and a name: ann"},
		{"emails are", emails.Settling(), "Some words, and a name: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var shown strings.Builder
				l := &liveText{
					redact: func(text string) string { return text }, stable: tt.settled,
					delta: func(text string) { shown.WriteString(text) }, reset: shown.Reset,
				}
				for _, piece := range strings.SplitAfter("Some words, and a name: ann", " ") {
					l.add(piece)
				}

				time.Sleep(liveEvery)
				synctest.Wait()
				if shown.String() != tt.want {
					t.Errorf("shown is %q, want %q", shown.String(), tt.want)
				}
				if l.end(); shown.String() != "Some words, and a name: ann" {
					t.Errorf("at the end, shown is %q", shown.String())
				}
			})
		})
	}
}
