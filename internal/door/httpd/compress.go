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
	return wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(paced{w, answerOf(w)}, r) }))
}

// paced takes a processor for each part of an answer that is not small, while it is compressed.
type paced struct {
	http.ResponseWriter
	answer *Answer
}

func (p paced) Write(b []byte) (int, error) {
	defer p.answer.compress(len(b))()
	return p.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] reach the connection.
func (p paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

var zstdWriters = writer.ZstdWriterFactory{
	Levels: func() (least, most int) { return int(zstd.SpeedFastest), int(zstd.SpeedBestCompression) },
	New: func(w io.Writer, _ int) writer.ZstdWriter {
		e := zstdEncoders.Get().(*zstd.Encoder)
		e.Reset(w)
		return &zstdWriter{e}
	},
}

// zstdEncoders are at the level that takes no more time than gzip at gzipLevel, whatever the texts. A
// large answer gets smaller than with gzip, one of a few KiB up to 4 % larger. They look back 1 MiB, because the
// prompts of a run repeat those before: with the 128 KiB that gzhttp has by itself, these are several times as large.
// An encoder takes 3 MiB.
var zstdEncoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20),
		zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // the options above are wrong
	}
	return e
}}

// zstdWriter returns its encoder when it is closed.
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
