package httpd

import (
	"io"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzhttp/writer"
	"github.com/klauspost/compress/zstd"
)

// gzipLevel is the level beyond which answers get hardly smaller: level 6 makes the tree of a
// large plan 3 % smaller in twice the time.
const gzipLevel = 3

// compressed compresses answers of some size, in the encoding that the client prefers.
func compressed(h http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(1024), gzhttp.CompressionLevel(gzipLevel),
		gzhttp.EnableZstd(true), gzhttp.ZstdImplementation(zstdWriters))
	if err != nil {
		panic(err) // the options above are wrong
	}
	return wrap(h)
}

var zstdWriters = writer.ZstdWriterFactory{
	Levels: func() (least, most int) { return int(zstd.SpeedFastest), int(zstd.SpeedBestCompression) },
	New: func(w io.Writer, _ int) writer.ZstdWriter {
		e := zstdEncoders.Get().(*zstd.Encoder)
		e.Reset(w)
		return &zstdWriter{e}
	},
}

// zstdWindow is how far back repeats are found: as far as clients have room for (RFC 9659).
// The texts of steps repeat each other far apart: with the 128 KiB that gzhttp has by itself,
// the tree of a large plan is half again as large. An encoder takes twice the window; with
// less it moves all of it for every block, which is a third of its time.
const zstdWindow = 8 << 20

// zstdLevel uses the window. The default level finds a fifth less, in three quarters of the
// time.
const zstdLevel = zstd.SpeedBetterCompression

var zstdEncoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstdLevel), zstd.WithWindowSize(zstdWindow), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // the options above are wrong
	}
	return e
}}

// zstdWriter returns its encoder to the pool when it is closed.
type zstdWriter struct{ *zstd.Encoder }

func (w *zstdWriter) Close() error {
	if w.Encoder == nil {
		return nil
	}
	err := w.Encoder.Close()
	w.Reset(nil)
	zstdEncoders.Put(w.Encoder)
	w.Encoder = nil
	return err
}
