package httpd

import (
	"io"
	"net/http"
	"runtime"
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

// Write implements [io.Writer].
func (p paced) Write(b []byte) (int, error) {
	defer p.answer.compress(len(b))()
	return p.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] reach the connection.
func (p paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

var zstdWriters = writer.ZstdWriterFactory{
	Levels: func() (least, most int) { return int(zstd.SpeedFastest), int(zstd.SpeedBestCompression) },
	New: func(w io.Writer, _ int) writer.ZstdWriter {
		from := farEncoders
		// One that a client's pace holds up would keep its memory for as long.
		if a, ok := w.(*Answer); !ok || a.streamed || !from.begin() {
			from = nearEncoders
		}
		e := from.pool.Get().(*zstd.Encoder)
		e.Reset(w)
		return &zstdWriter{e, from}
	},
}

// encoders are encoders of one kind.
type encoders struct {
	pool sync.Pool
	used chan struct{} // holds a token for each that is in use; nil: there may be any number
}

// farEncoders look back 8 MiB, as far as clients have room for (RFC 9659). The texts of steps
// repeat each other far apart: with the 128 KiB that gzhttp has by itself, the tree of a large
// plan is half again as large. An encoder takes twice the window, and 22 MiB in all; with less
// it moves all of the window for every block, which is a third of its time. So there are as many
// as processors. The default level finds a fifth less, in three quarters of the time.
var farEncoders = &encoders{
	pool: sync.Pool{New: func() any { return newEncoder(zstd.SpeedBetterCompression, 8<<20) }},
	used: make(chan struct{}, max(2, runtime.GOMAXPROCS(0))),
}

// nearEncoders are for all other answers. One takes 3 MiB.
var nearEncoders = &encoders{pool: sync.Pool{New: func() any { return newEncoder(zstd.SpeedDefault, 512<<10) }}}

func newEncoder(level zstd.EncoderLevel, window int) *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // the options above are wrong
	}
	return e
}

// begin reports whether one more may be used.
func (e *encoders) begin() bool {
	select {
	case e.used <- struct{}{}:
		return true
	default:
		return false
	}
}

// zstdWriter returns its encoder when it is closed.
type zstdWriter struct {
	*zstd.Encoder
	from *encoders
}

func (w *zstdWriter) Close() error {
	if w.Encoder == nil {
		return nil
	}
	err := w.Encoder.Close()
	w.Reset(nil)
	w.from.pool.Put(w.Encoder)
	if w.from.used != nil {
		<-w.from.used
	}
	w.Encoder = nil
	return err
}
