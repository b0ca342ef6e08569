package main

import (
	"database/sql"
	"errors"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// A table is a table of a SQL database that has only a unique index.
type table struct {
	db     *sql.DB
	insert *sql.Stmt
}

func openTable(dir string) (way, error) {
	// With this journal a row survives a kill of the process without an fsync. A write of
	// shale does so under SyncManual.
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(dir, "seen.sqlite"))+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=cache_size(-8192)")
	if err != nil {
		return nil, err
	}
	t := &table{db: db}
	if _, err = db.Exec("CREATE TABLE seen (url TEXT PRIMARY KEY) WITHOUT ROWID"); err == nil {
		t.insert, err = db.Prepare("INSERT INTO seen VALUES (?) ON CONFLICT DO NOTHING")
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return t, nil
}

// visit asks and remembers in one statement.
func (t *table) visit(url []byte) (bool, error) {
	inserted, err := t.insert.Exec(string(url))
	if err != nil {
		return false, err
	}
	n, err := inserted.RowsAffected()
	return n == 0, err
}

func (t *table) memory() int64 { return cacheBytes }
func (t *table) close() error  { return errors.Join(t.insert.Close(), t.db.Close()) }
