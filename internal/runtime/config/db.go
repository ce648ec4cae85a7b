package config

import (
	"time"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/agent/tool/db"
	"github.com/actlog/actlog/internal/runtime/define"
)

// DB are the tools for a Postgres database. [db.Options] says what the fields mean.
type DB struct {
	URL            Value           `json:"url"`
	Role           string          `json:"role,omitempty"`
	EnableWrite    bool            `json:"enableWrite"` // false unless the file says otherwise
	WriteRole      string          `json:"writeRole,omitempty"`
	Schemas        []string        `json:"schemas,omitempty"`
	MaxRows        int             `json:"maxRows,omitempty"`
	MaxBytes       int             `json:"maxBytes,omitempty"`
	Timeout        define.Duration `json:"timeout,omitempty"`
	Idempotency    bool            `json:"idempotency,omitempty"`
	AllowSuperuser bool            `json:"allowSuperuser,omitempty"`
}

func readDB(n node) (d DB) {
	n.options(fields{
		"url":            func(n node) { d.URL = n.value(true) },
		"role":           func(n node) { d.Role = n.word() },
		"enableWrite":    func(n node) { d.EnableWrite = n.boolean() },
		"writeRole":      func(n node) { d.WriteRole = n.word() },
		"schemas":        func(n node) { d.Schemas = n.words() },
		"maxRows":        func(n node) { d.MaxRows = int(n.positive(db.MaxRows)) },
		"maxBytes":       func(n node) { d.MaxBytes = int(n.positive(db.MaxBytes)) },
		"timeout":        func(n node) { d.Timeout = n.duration() },
		"idempotency":    func(n node) { d.Idempotency = n.boolean() },
		"allowSuperuser": func(n node) { d.AllowSuperuser = n.boolean() },
	}, func() error { return d.options().Check() }, "url")
	return d
}

func (d *DB) options() db.Options {
	return db.Options{
		URL: d.URL.Reveal(), Role: d.Role, Write: d.EnableWrite, WriteRole: d.WriteRole, Schemas: d.Schemas,
		MaxRows: d.MaxRows, MaxBytes: d.MaxBytes, Timeout: time.Duration(d.Timeout),
		Idempotency: d.Idempotency, AllowSuperuser: d.AllowSuperuser,
	}
}

func (d *DB) open() ([]tool.Tool, error) { return db.Tools(d.options()) }

func (d *DB) tools() []string {
	switch {
	case d == nil:
		return nil
	case d.EnableWrite:
		return []string{"db.query", "db.schema", "db.execute"}
	}
	return []string{"db.query", "db.schema"}
}
