package pg

import "github.com/jackc/pgx/v5/pgconn"

// sockets are connections that others use, and that have to end when their server is of no use any more.
type sockets map[*pgconn.PgConn]bool

// add adds a connection, and forgets those that have ended.
func (s sockets) add(conn *pgconn.PgConn) {
	for other := range s {
		select {
		case <-other.CleanupDone():
			delete(s, other)
		default:
		}
	}
	s[conn] = true
}

// close ends those that lead to an address, or all if it is empty. Whatever they are used for fails, and is tried again
// elsewhere.
func (s sockets) close(address string) {
	for conn := range s {
		if address == "" || addressOf(conn) == address {
			_ = conn.Conn().Close()
			delete(s, conn)
		}
	}
}

func addressOf(conn *pgconn.PgConn) string { return conn.Conn().RemoteAddr().String() }
