package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"path/filepath"
	"sync/atomic"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// A users is a table of users in a SQL database. Any number of goroutines may use it.
type users struct {
	db      *sql.DB
	queries atomic.Int64 // calls of find
}

const schema = "CREATE TABLE IF NOT EXISTS users (id TEXT PRIMARY KEY, profile TEXT NOT NULL) WITHOUT ROWID"

// openUsers opens the database in a file. It creates the file if there is none.
func openUsers(ctx context.Context, file string) (*users, error) {
	name := url.URL{Scheme: "file", Opaque: filepath.ToSlash(file), RawQuery: "_txlock=immediate" +
		"&_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4)
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", file, err), db.Close())
	}
	return &users{db: db}, nil
}

// fill inserts n users, user0 and so on, in one transaction.
func (u *users) fill(ctx context.Context, n int) error {
	tx, err := u.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	for i := range n {
		if _, err := tx.ExecContext(ctx, "INSERT INTO users VALUES (?, ?)", fmt.Sprint("user", i), "made up"); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// find returns the profile of a user, and sql.ErrNoRows if there is none.
func (u *users) find(ctx context.Context, id string) (profile string, err error) {
	u.queries.Add(1)
	err = u.db.QueryRowContext(ctx, "SELECT profile FROM users WHERE id = ?", id).Scan(&profile)
	return profile, err
}

// put inserts a user or changes the profile. The row is committed when put returns.
func (u *users) put(ctx context.Context, id, profile string) error {
	_, err := u.db.ExecContext(ctx, "INSERT INTO users VALUES (?, ?) ON CONFLICT DO UPDATE SET profile = excluded.profile", id, profile)
	return err
}

func (u *users) remove(ctx context.Context, id string) error {
	_, err := u.db.ExecContext(ctx, "DELETE FROM users WHERE id = ?", id)
	return err
}

// count returns the number of users.
func (u *users) count(ctx context.Context) (n int, err error) {
	err = u.db.QueryRowContext(ctx, "SELECT count(*) FROM users").Scan(&n)
	return n, err
}

// ids yields the ids of all users.
func (u *users) ids(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		rows, err := u.db.QueryContext(ctx, "SELECT id FROM users")
		if err != nil {
			yield("", err)
			return
		}
		defer rows.Close() // rows.Err has the error
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); !yield(id, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield("", err)
		}
	}
}
