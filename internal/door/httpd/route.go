package httpd

import "github.com/labstack/echo/v4"

// Route is a path and all that is known of its requests before they are looked at.
type Route struct {
	Method, Path string
	Need         Scope
	Handle       echo.HandlerFunc

	Quiet bool // machines ask all day: its requests are logged at level debug
	Long  bool // takes as long as its client does: no time-out
	// long, and how long says nothing about the server: one client has a share of them, and they end with its key
	Stream bool
	Beacon bool // web pages of allowed origins may send there
	Acts   bool // a GET that does something: only who means it may send it, see [MayAct]
	Spends bool // a GET that changes something on the way: it asks [MayAct], and else only reads

	// Refuse answers an error; nil: as a problem document.
	Refuse func(c echo.Context, p *Problem) error
	// Answered is called with the status of each answer; may be nil.
	Answered func(status int)
}
