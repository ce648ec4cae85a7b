// Package migrations holds the schema of Actlog as goose migrations, embedded
// so that the binary and the tests apply the very same files.
package migrations

import "embed"

// FS holds the migrations, one file per version.
//
//go:embed *.sql
var FS embed.FS

// Schema is the Postgres schema that holds every table of Actlog. The migrator
// creates it before the first migration, because goose keeps its own table there.
const Schema = "actlog"

// VersionTable is goose's table of applied versions.
const VersionTable = Schema + ".schema_version"

// TableBeforeBaseline is the table of applied versions of the databases that were made before these migrations were
// begun anew with one baseline. Nothing migrates such a database.
const TableBeforeBaseline = Schema + ".goose_db_version"
