package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync/atomic"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// A users is a table of users in a SQL database. Any number of goroutines may use it.
type users struct {
	db      *sql.DB
	queries atomic.Int64 // calls of find
}

// newUsers makes a table of n users, user0 and so on, in a new file.
func newUsers(ctx context.Context, file string, n int) (*users, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE users (id TEXT PRIMARY KEY, profile TEXT NOT NULL) WITHOUT ROWID;
		WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n LIMIT ?) INSERT INTO users SELECT 'user' || i, 'made up' FROM n`, n)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &users{db: db}, nil
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

func (u *users) each(ctx context.Context, fn func(id string) error) error {
	rows, err := u.db.QueryContext(ctx, "SELECT id FROM users")
	if err != nil {
		return err
	}
	defer rows.Close() // rows.Err has the error
	for rows.Next() && err == nil {
		var id string
		if err = rows.Scan(&id); err == nil {
			err = fn(id)
		}
	}
	return errors.Join(err, rows.Err())
}
