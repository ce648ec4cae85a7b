// Package db owns the tools for a Postgres database: db.query and db.schema, which read, and db.execute, which writes.
//
// What a model writes is one SQL statement, which is not parsed here: the role in the database is the boundary. A
// statement goes through the extended protocol, so that it is one, in a transaction and on a connection of its own, so
// that nothing of it is left for the next. What reads is in a read-only transaction that is always rolled back.
package db
