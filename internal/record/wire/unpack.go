package wire

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// encodings says what a body may be compressed with.
const encodings = "gzip, zstd, zlib, deflate, snappy, x-snappy-framed, lz4 or none"

// unpackers return what decompresses a body, by its Content-Encoding: all that the OpenTelemetry Collector offers.
// They reserve what a decompressor holds before it holds that, but for windows of 64 KiB and less.
var unpackers = map[string]func(*plainReader) (io.ReadCloser, error){
	"": unpacked, "identity": unpacked,
	"gzip": func(r *plainReader) (io.ReadCloser, error) { return gzip.NewReader(r.sent) },
	"zstd": unzstd,
	"zlib": func(r *plainReader) (io.ReadCloser, error) { return inflate(bufio.NewReader(r.sent), zlib.NewReader) },

	"deflate":         undeflate,
	"snappy":          unsnappy,
	"x-snappy-framed": func(r *plainReader) (io.ReadCloser, error) { return unsnappyFrames(r.sent), nil },
	"lz4":             unlz4,
}

func unpacked(r *plainReader) (io.ReadCloser, error) {
	r.encoding = ""
	return io.NopCloser(r.sent), nil
}

// The window of zstd is at most maxWindow bytes. One of minWindow is small enough for any body.
const (
	maxWindow = 16 << 20
	minWindow = 32 << 10
)

// unzstd decompresses zstd, in one thread. No frame may have a larger window than the first.
func unzstd(r *plainReader) (io.ReadCloser, error) {
	packed := bufio.NewReader(r.sent)
	window := zstdWindow(packed)
	if err := r.reserve(int64(window)); err != nil {
		return nil, err
	}

	plain, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	return plain.IOReadCloser(), nil
}

// zstdWindow returns the window of the first frame of a body, in bytes. The decoder holds all of it
// from the start, however small the body is.
func zstdWindow(body *bufio.Reader) uint64 {
	var head zstd.Header
	start, _ := body.Peek(zstd.HeaderMaxSize)
	if err := head.Decode(start); err != nil || head.Skippable {
		return maxWindow
	}

	window := head.WindowSize
	if head.SingleSegment {
		window = head.FrameContentSize
	}
	return min(max(window, minWindow), maxWindow)
}

// undeflate decompresses deflate. That is the format of zlib, but some clients send it without its head and its
// checksum.
func undeflate(r *plainReader) (io.ReadCloser, error) {
	packed := bufio.NewReader(r.sent)
	if head, _ := packed.Peek(2); len(head) == 2 && head[0]&0xf == 8 && binary.BigEndian.Uint16(head)%31 == 0 {
		return inflate(packed, zlib.NewReader)
	}
	return inflate(packed, func(packed io.Reader) (io.ReadCloser, error) { return flate.NewReader(packed), nil })
}

// inflate decompresses the one stream that a body of zlib is.
func inflate(packed *bufio.Reader, open func(io.Reader) (io.ReadCloser, error)) (io.ReadCloser, error) {
	plain, err := open(packed)
	if err != nil {
		return nil, err
	}
	return &onlyStream{plain, packed}, nil
}

// onlyStream is a decompressed stream that nothing may follow. Its decompressor reads no byte behind the end.
type onlyStream struct {
	io.ReadCloser
	packed *bufio.Reader
}

var errFollowed = errors.New("something follows the compressed data")

func (s *onlyStream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		if rest, _ := s.packed.Peek(1); len(rest) > 0 {
			return n, errFollowed
		}
	}
	return n, err
}

// unsnappyFrames decompresses the framing format of snappy, in chunks of at most 64 KiB.
func unsnappyFrames(packed io.Reader) io.ReadCloser { return io.NopCloser(snappy.NewReader(packed)) }

// snappyFrames is the beginning of the framing format of snappy.
const snappyFrames = "\xff\x06\x00\x00sNaPpY"

// maxSnappyRatio is more than a byte of snappy can unpack to: its shortest copies are 64 bytes in 3.
const maxSnappyRatio = 22

// unsnappy decompresses a block of snappy, which has to be held as a whole, compressed and not. Older Collectors
// and gRPC call the framing format by the same name.
func unsnappy(r *plainReader) (io.ReadCloser, error) {
	packed := bufio.NewReader(r.sent)
	if head, _ := packed.Peek(len(snappyFrames)); string(head) == snappyFrames {
		return unsnappyFrames(packed), nil
	}

	head, _ := packed.Peek(binary.MaxVarintLen64)
	length, n := binary.Uvarint(head)
	switch {
	case n <= 0:
		return nil, snappy.ErrCorrupt
	case length > MaxBodyBytes:
		r.err = r.tooLarge()
		return nil, r.err
	}

	block, err := r.readBlock(packed, snappy.MaxEncodedLen(int(length)))
	switch {
	case err != nil:
		return nil, err
	case int(length) > maxSnappyRatio*len(block):
		return nil, snappy.ErrCorrupt
	}
	if err := r.reserve(int64(length)); err != nil {
		return nil, err
	}
	if r.whole, err = snappy.Decode(make([]byte, length), block); err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(r.whole)), r.reserve(-int64(cap(block)))
}

// readBlock reads all of a compressed body. It reserves the capacity of the block before it grows to that, and of a
// smaller one that it leaves behind returns it after that.
func (r *plainReader) readBlock(packed io.Reader, most int) ([]byte, error) {
	const first = 4 << 10
	var block []byte
	for len(block) <= most {
		if len(block) == cap(block) {
			larger := min(max(2*cap(block), first), most+1)
			if err := r.reserve(int64(larger)); err != nil {
				return nil, err
			}
			left := cap(block)
			block = append(make([]byte, 0, larger), block...)
			if err := r.reserve(-int64(left)); err != nil {
				return nil, err
			}
		}

		n, err := packed.Read(block[len(block):cap(block)])
		block = block[:len(block)+n]
		switch {
		case errors.Is(err, io.EOF):
			return block, nil
		case err != nil:
			return nil, err
		}
	}
	return nil, snappy.ErrCorrupt
}

// unlz4 decompresses frames of lz4, in one thread.
func unlz4(r *plainReader) (io.ReadCloser, error) {
	plain := lz4.NewReader(&lz4Frames{packed: bufio.NewReader(r.sent), reserve: r.reserve})
	if err := plain.Apply(lz4.ConcurrencyOption(1)); err != nil {
		return nil, err
	}
	return lz4Reader{plain}, nil
}

type lz4Reader struct{ *lz4.Reader }

// Close gives the blocks back for other bodies.
func (r lz4Reader) Close() error {
	r.Reset(nil)
	return nil
}

// lz4Frames passes frames of lz4 on to a decompressor. Before the head of a frame passes, it reserves the two blocks
// that the decompressor then holds, one compressed and one not, whatever is in them.
type lz4Frames struct {
	packed   *bufio.Reader
	reserve  func(int64) error
	reserved int64
	left     int64 // bytes up to the next head of a frame or of a block
	within   bool  // a frame, whose blocks and whose end have these checksums
	blockSum int64
	endSum   int64
}

const (
	lz4Magic = 0x184D2204
	lz4Skip  = 0x184D2A50 // and the next 15: frames that hold something else
	lz4Sum   = 4          // bytes of a checksum
)

var errLZ4 = errors.New("neither a frame of lz4 nor one to skip")

func (f *lz4Frames) Read(p []byte) (int, error) {
	if f.left == 0 {
		next := f.frame
		if f.within {
			next = f.block
		}
		if err := next(); err != nil {
			return 0, err
		}
	}

	n, err := f.packed.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	return n, err
}

// peek returns the next bytes. If there are fewer, the decompressor gets those and finds that the frame is cut off.
func (f *lz4Frames) peek(n int) (next []byte, ok bool) {
	next, _ = f.packed.Peek(n)
	f.left = int64(max(len(next), 1))
	return next, len(next) == n
}

// frame looks at the head of a frame.
func (f *lz4Frames) frame() error {
	head, ok := f.peek(6)
	if !ok {
		return nil
	}
	magic := binary.LittleEndian.Uint32(head)
	flags, sizes := head[4], head[5]
	if magic&^0xf == lz4Skip {
		if head, ok = f.peek(8); ok {
			f.left = 8 + int64(binary.LittleEndian.Uint32(head[4:]))
		}
		return nil
	}

	block, known := lz4Blocks[sizes>>4]
	if magic != lz4Magic || !known {
		return errLZ4
	}

	const dictionary, contentSum = 1 << 0, 1 << 2
	const contentSize, blockSum = 1 << 3, 1 << 4
	ifSet := func(flag byte, bytes int64) int64 {
		if flags&flag == 0 {
			return 0
		}
		return bytes
	}
	f.within, f.left = true, 7+ifSet(contentSize, 8)+ifSet(dictionary, 4)
	f.blockSum, f.endSum = ifSet(blockSum, lz4Sum), ifSet(contentSum, lz4Sum)

	if more := 2*block - f.reserved; more > 0 {
		f.reserved += more
		return f.reserve(more)
	}
	return nil
}

// lz4Blocks are the sizes of blocks by how a head says them.
var lz4Blocks = map[byte]int64{4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}

// block looks at the head of a block, which may be the end of the frame.
func (f *lz4Frames) block() error {
	head, ok := f.peek(4)
	if !ok {
		return nil
	}

	const uncompressed = 1 << 31
	size := int64(binary.LittleEndian.Uint32(head) &^ uncompressed)
	f.within = binary.LittleEndian.Uint32(head) != 0
	f.left = 4 + size + f.blockSum
	if !f.within {
		f.left = 4 + f.endSum
	}
	return nil
}
