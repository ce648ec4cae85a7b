package runapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/labstack/echo/v4"

	"github.com/actlog/actlog/internal/door/httpd"
)

// silence is how long a stream says nothing before it says that it goes on.
const silence = 15 * time.Second

// stillOpen is the comment that says so.
const stillOpen = ":\n\n"

// beginEvents begins an answer of server-sent events. What is read for it, no answer holds.
func beginEvents(c echo.Context) error {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	h.Set(gzhttp.HeaderNoCompression, "1")
	return httpd.AnswerTo(c).Stream(0)
}

// sendData sends an event. head has its other lines.
func sendData(c echo.Context, head string, data any) error {
	encoded, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return flushText(c, head+"data: "+string(encoded)+"\n\n")
}

func flushText(c echo.Context, text string) error {
	if _, err := c.Response().Write([]byte(text)); err != nil {
		return err
	}
	if err := http.NewResponseController(c.Response()).Flush(); err != nil {
		return fmt.Errorf("%w: %w", httpd.ErrGone, err)
	}
	return nil
}
