package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// A table is a table of a SQL database with a unique index, which is all of it:
// without row ids there is one tree and no second copy of the URL.
type table struct {
	db     *sql.DB
	conn   *sql.Conn
	insert *sql.Stmt
	batch  int // URLs a transaction
	open   int // URLs in the one that is open
}

// cacheBytes is what both SQLite and shale may use to cache blocks.
const cacheBytes = 8 << 20

func openTable(p plan) (_ way, err error) {
	ctx := context.Background()
	t := &table{batch: p.batch}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.free())
		}
	}()
	// Under this journal a transaction survives a kill of the process without
	// an fsync of its own, as a write of shale under SyncManual does.
	name := url.URL{Scheme: "file", Opaque: filepath.ToSlash(filepath.Join(p.dir, "seen.sqlite")),
		RawQuery: "_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=cache_size(-8192)"}
	if t.db, err = sql.Open("sqlite", name.String()); err != nil {
		return nil, err
	}
	if t.conn, err = t.db.Conn(ctx); err != nil {
		return nil, err
	}
	if _, err = t.conn.ExecContext(ctx, "CREATE TABLE seen (url TEXT PRIMARY KEY) WITHOUT ROWID"); err != nil {
		return nil, err
	}
	t.insert, err = t.conn.PrepareContext(ctx, "INSERT INTO seen (url) VALUES (?) ON CONFLICT DO NOTHING")
	return t, err
}

// visit asks and remembers in one statement. It takes a context that is never
// done: one that might be would cost a goroutine a statement.
func (t *table) visit(url []byte) (bool, error) {
	ctx := context.Background()
	if t.open == 0 && t.batch > 1 {
		if _, err := t.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
			return false, err
		}
	}
	inserted, err := t.insert.ExecContext(ctx, string(url))
	if err != nil {
		return false, err
	}
	if t.open++; t.open == t.batch {
		if err := t.commit(); err != nil {
			return false, err
		}
	}
	rows, err := inserted.RowsAffected()
	return rows == 0, err
}

func (t *table) commit() error {
	if t.open == 0 {
		return nil
	}
	t.open = 0
	if t.batch == 1 {
		return nil // each statement was a transaction
	}
	_, err := t.conn.ExecContext(context.Background(), "COMMIT")
	return err
}

func (t *table) counts(*result) {}

func (t *table) close() error { return errors.Join(t.commit(), t.free()) }

// free closes what was opened.
func (t *table) free() (err error) {
	if t.insert != nil {
		err = t.insert.Close()
	}
	if t.conn != nil {
		err = errors.Join(err, t.conn.Close())
	}
	if t.db != nil {
		err = errors.Join(err, t.db.Close())
	}
	return err
}
