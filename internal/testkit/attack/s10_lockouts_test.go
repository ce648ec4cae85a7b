//go:build attack

package attack_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// S10: nobody locks others out.

func TestS10WrongLogins(t *testing.T) {
	t.Parallel()
	h := open(t, setting{})
	for n := range 30 {
		form := url.Values{"key": {h.keys[wrong]}}.Encode()
		headers := []string{"Content-Type: application/x-www-form-urlencoded", "Origin: " + h.url}
		if n%2 == 0 {
			headers = append(headers, "X-Forwarded-For: 10.0.0.1, 192.0.2.7")
		}

		a := h.call(none, http.MethodPost, "/login", form, headers...)
		if a.status == http.StatusSeeOther || a.header.Get("Set-Cookie") != "" {
			t.Fatalf("a wrong key logs in: %d", a.status)
		}
	}

	for range 10 { // a right key is no guess
		cookie, a := h.login("read")
		if a.status != http.StatusSeeOther || cookie == "" {
			t.Fatalf("after wrong logins of others a right one is answered %d", a.status)
		}
	}
	if a := h.call("read", http.MethodGet, "/api/v1/plans", nil); a.status != http.StatusOK {
		t.Errorf("a key after wrong logins: %d", a.status)
	}
}

// One key that takes all streams leaves some for another, and so does one behind the same address.
func TestS10Streams(t *testing.T) {
	t.Parallel()
	h := open(t, setting{flags: []string{"--max-streams", "40"}})
	r := h.start("slow")
	r.reach()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	for _, path := range []string{
		"/api/v1/events", "/api/v1/plans/" + r.id + "/events", "/api/v1/runs/" + r.id + "/listen",
	} {
		t.Logf("%s: the key read has %d more", path, h.streams(ctx, "read", path, 60))
	}
	for _, key := range []string{"bob", "owner"} {
		if n := h.streams(ctx, key, "/api/v1/events", 3); n < 3 {
			t.Errorf("while another key holds as many streams as it can, %s gets %d of 3", key, n)
		}
	}

	cancel()
	r.finish()
}

// streams begins streams until they are refused, and returns how many began. They end with ctx.
func (h *house) streams(ctx context.Context, key, path string, most int) (n int) {
	h.t.Helper()
	for range most {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+path, nil)
		if err != nil {
			h.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+h.keys[key])

		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			h.t.Fatal(err)
		}
		h.t.Cleanup(func() { resp.Body.Close() })

		if resp.StatusCode == http.StatusOK {
			n++
			continue
		}
		if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusTooManyRequests &&
			resp.StatusCode != http.StatusServiceUnavailable {
			h.t.Errorf("a stream too many is answered %d %s", resp.StatusCode, body)
		}
		break
	}
	return n
}

// Connections that say nothing, or half of something, leave room for those that do.
func TestS10Connections(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{
		"silent":            "",
		"half a request":    "GET /api/v1/plans HTTP/1.1\r\nHost: localhost\r\n",
		"a slow header":     "GET /",
		"without a key":     "GET /api/v1/plans HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"open to everybody": "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"half a body": "POST /login HTTP/1.1\r\nHost: localhost\r\n" +
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\nkey=",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t, setting{flags: []string{"--max-connections", "60"}})
			address := strings.TrimPrefix(h.url, "http://")
			for range 150 {
				conn, err := net.DialTimeout("tcp", address, 5*time.Second)
				if err != nil {
					break // the rest do not even get in
				}
				t.Cleanup(func() { conn.Close() })
				_, _ = io.WriteString(conn, begin)
			}

			fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
			for range 5 {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/api/v1/plans", nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+h.keys["read"])

				resp, err := fresh.Do(req)
				if err != nil {
					t.Fatalf("with 150 connections that hold on, one with a key gets no answer: %v", err)
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					t.Errorf("resp.StatusCode = %d", resp.StatusCode)
				}
			}
		})
	}
}
