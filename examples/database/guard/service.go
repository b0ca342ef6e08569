package main

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
)

// A service answers requests for users. Any number of goroutines may call it.
type service struct {
	users      *users
	guard      guard
	cache      *cache
	keepAbsent bool // the cache keeps answers for absent users too

	queries atomic.Int64 // queries of the database, without sign-ups
	vain    atomic.Int64 // of these, queries for users that do not exist
	stopped atomic.Int64 // requests that the guard answered
	cached  atomic.Int64 // requests that the cache answered
}

// user returns the profile of a user, if the user exists. It asks the guard before the
// cache, because the guard takes no lock: many requests for made-up names end there.
func (s *service) user(ctx context.Context, name string) (profile string, found bool, err error) {
	if !s.guard.mayContain(name) {
		s.stopped.Add(1)
		return "", false, nil
	}
	a, ok, changes := s.cache.get(name)
	if ok {
		s.cached.Add(1)
		return a.profile, a.found, nil
	}
	s.queries.Add(1)
	a.name = name
	switch err := s.users.find.QueryRowContext(ctx, name).Scan(&a.profile); {
	case err == nil:
		a.found = true
	case errors.Is(err, sql.ErrNoRows):
		s.vain.Add(1)
	default:
		return "", false, err
	}
	if a.found || s.keepAbsent {
		s.cache.put(a, changes)
	}
	return a.profile, a.found, nil
}

// signUp adds a user. The order matters: the guard must know the name before anybody can
// find the row, and the cache must forget the name after the row has changed, because a
// lookup before that would still find no row.
func (s *service) signUp(ctx context.Context, name, profile string) error {
	if err := s.guard.add(name); err != nil {
		return err
	}
	if _, err := s.users.insert.ExecContext(ctx, name, profile); err != nil {
		return err
	}
	s.cache.forget(name)
	return nil
}
