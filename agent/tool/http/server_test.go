package http_test

import (
	"crypto/x509"
	"log/slog"
	"net/http/httptest"
)

// pool has the certificate of a server, which is for example.com and names below it.
func pool(s *httptest.Server) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return roots
}

var quiet = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
