package main

import (
	"context"
	"io"
)

// interruptible returns a reader of stdin whose reads end when ctx does, with the cause of that.
// The caller closes it. A read of stdin itself cannot be ended: it goes on in the background.
func interruptible(ctx context.Context, stdin io.Reader) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, stdin)
		in.CloseWithError(err)
	}()
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	return &interruptibleReader{out, stop}
}

type interruptibleReader struct {
	*io.PipeReader
	stop func() bool
}

func (r *interruptibleReader) Close() error {
	r.stop()
	return r.PipeReader.Close()
}
