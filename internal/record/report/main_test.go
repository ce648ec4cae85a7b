package report

import (
	"testing"

	"github.com/actlog/actlog/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
