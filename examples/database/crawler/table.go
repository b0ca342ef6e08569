package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// A table is a table of a SQL database that has only a unique index. Without row ids the
// database keeps one tree, and no second copy of the URL.
type table struct {
	db     *sql.DB
	conn   *sql.Conn
	insert *sql.Stmt
	batch  int // URLs in a transaction
	open   int // URLs in the open transaction
}

// cacheBytes is the size of the block cache, for SQLite and for shale.
const cacheBytes = 8 << 20

// openTable opens SQLite in the plan's directory.
func openTable(p plan) (_ way, err error) {
	ctx := context.Background()
	t := &table{batch: p.batch}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.free())
		}
	}()
	// With this journal a transaction survives a kill of the process without an fsync. A
	// write of shale does so under SyncManual.
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

// visit asks and remembers in one statement. It uses a context that cannot be cancelled:
// for another one, the driver would start a goroutine for each statement.
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

// commit ends the open transaction, if there is one.
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

// free closes everything that was opened.
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
