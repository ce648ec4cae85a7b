//go:build unix

package embedpg

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"time"
)

// ready reports whether the server accepts clients. Such a server answers a client with a
// request to authenticate. A server that starts, recovers or stops answers with an error.
func ready(ctx context.Context, network, address string) bool {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Second))

	const protocol = 3 << 16
	msg := binary.BigEndian.AppendUint32(make([]byte, 4), protocol)
	msg = append(msg, "user\x00"+role+"\x00database\x00"+database+"\x00\x00"...)
	binary.BigEndian.PutUint32(msg, uint32(len(msg)))
	if _, err := conn.Write(msg); err != nil {
		return false
	}

	var kind [1]byte
	_, err = io.ReadFull(conn, kind[:])
	return err == nil && kind[0] == 'R'
}
