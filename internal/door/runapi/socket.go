package runapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
	"github.com/actlog/actlog/internal/runtime/runs"
)

// socket sends the frames of an execution over a WebSocket: whenever something changed, and each second, until
// it has ended. A client that does not read is cut: the server holds one frame for it.
func (s *Server) socket(c echo.Context) error {
	id, err := httpd.NativeID(c, "executionId")
	if err != nil {
		return err
	}
	r := c.Request()
	e, err := runs.ReadExecution(r.Context(), s.reader(c), id)
	if err != nil {
		return err
	}

	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		c.Response().Header().Set("Upgrade", "websocket")
		return httpd.Refused(http.StatusUpgradeRequired,
			"this is a WebSocket: send Connection: Upgrade and Upgrade: websocket")
	}
	if foreign(r) {
		return httpd.Refused(http.StatusForbidden,
			"a web page of another origin must not open this WebSocket: it could read what happens")
	}

	answer := httpd.AnswerTo(c)
	answer.Release()
	conn, err := websocket.Accept(answer.Raw(), r, nil)
	c.Response().Committed, c.Response().Status = true, http.StatusSwitchingProtocols
	if err != nil { // the answer says why
		c.Response().Status = http.StatusBadRequest
		return nil
	}
	defer func() { _ = conn.CloseNow() }()

	frames, stop := s.frames.Follow(e.Run.Plan.RootPlanID, id)
	defer stop()
	s.sendFrames(conn.CloseRead(r.Context()), conn, frames)
	return nil
}

// foreign reports whether a web page of another origin makes a browser send a request.
func foreign(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(u.Host, r.Host)
}

// sendFrames sends frames, each second the newest one again, until the last one, or the client is gone.
func (s *Server) sendFrames(ctx context.Context, conn *websocket.Conn, frames <-chan frame) {
	beat := time.NewTicker(s.config.SocketBeat)
	defer beat.Stop()
	var newest frame
	for {
		var open bool
		select {
		case f, ok := <-frames:
			if open = ok; ok {
				newest = f
			}
		case <-beat.C:
			open = true
		case <-ctx.Done():
			return
		}

		switch {
		case !open && newest.last:
			_ = conn.Close(websocket.StatusNormalClosure, "the execution has ended")
			return
		case !open:
			_ = conn.Close(websocket.StatusTryAgainLater, "connect again")
			return
		case newest.text == nil:
			continue
		}

		if s.sendFrame(ctx, conn, newest) != nil {
			return
		}
	}
}

// sendFrame sends a frame, which the client has to read soon.
func (s *Server) sendFrame(ctx context.Context, conn *websocket.Conn, f frame) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.SocketPatience)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, f.text)
}
