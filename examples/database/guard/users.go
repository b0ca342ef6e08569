package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// readNames returns the names of the users, without repetitions.
func readNames(c config) ([]string, error) {
	var names []string
	if c.names == "" {
		for i := range c.users {
			names = append(names, fmt.Sprintf("user%07d", i))
		}
		return names, nil
	}
	f, err := os.Open(c.names)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading
	there := make(map[string]bool)
	lines := bufio.NewScanner(f)
	for len(names) < c.users && lines.Scan() {
		if name := lines.Text(); name != "" && !there[name] {
			there[name] = true
			names = append(names, name)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s, after %d names: %w", c.names, len(names), err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no names in it", c.names)
	}
	return names, nil
}

// profile returns what the database stores for a user.
func profile(name string) string { return "the profile of " + name }

// A users is the table of users in a SQL database.
type users struct {
	db           *sql.DB
	find, insert *sql.Stmt
}

const schema = "CREATE TABLE IF NOT EXISTS users (name TEXT PRIMARY KEY, profile TEXT NOT NULL) WITHOUT ROWID"

// openUsers opens the database in a file. It creates the file if there is none.
func openUsers(ctx context.Context, file string, connections int) (_ *users, err error) {
	name := url.URL{Scheme: "file", Opaque: filepath.ToSlash(file), RawQuery: "_txlock=immediate" +
		"&_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"}
	u := new(users)
	if u.db, err = sql.Open("sqlite", name.String()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", file, err), u.close())
		}
	}()
	u.db.SetMaxOpenConns(connections)
	u.db.SetMaxIdleConns(connections)
	if _, err = u.db.ExecContext(ctx, schema); err != nil {
		return nil, err
	}
	if u.find, err = u.db.PrepareContext(ctx, "SELECT profile FROM users WHERE name = ?"); err != nil {
		return nil, err
	}
	u.insert, err = u.db.PrepareContext(ctx, "INSERT INTO users (name, profile) VALUES (?, ?)")
	return u, err
}

// fill inserts all users in one transaction.
func (u *users) fill(ctx context.Context, names []string) error {
	tx, err := u.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	insert := tx.StmtContext(ctx, u.insert)
	for _, name := range names {
		if _, err := insert.ExecContext(ctx, name, profile(name)); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// names yields the names of all users. Guards are loaded from it.
func (u *users) names(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		rows, err := u.db.QueryContext(ctx, "SELECT name FROM users")
		if err != nil {
			yield("", err)
			return
		}
		defer rows.Close() // rows.Err has the error
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); !yield(name, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield("", err)
		}
	}
}

// count returns the number of users.
func (u *users) count(ctx context.Context) (n int, err error) {
	err = u.db.QueryRowContext(ctx, "SELECT count(*) FROM users").Scan(&n)
	return n, err
}

// close closes everything that was opened.
func (u *users) close() (err error) {
	for _, s := range []*sql.Stmt{u.find, u.insert} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return errors.Join(err, u.db.Close())
}
