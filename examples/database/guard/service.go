package main

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
)

// A service answers requests for users.
type service struct {
	users      *users
	guard      guard
	cache      *cache
	keepAbsent bool // in the cache

	queries atomic.Int64 // of the database, sign-ups left out
	vain    atomic.Int64 // of these: there was no such user
	stopped atomic.Int64 // requests that the guard answered
	cached  atomic.Int64 // requests that the cache answered
}

// user returns the profile of a user, if there is one. The guard comes before
// the cache: it takes no lock, and a flood of made-up names ends there.
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

// signUp adds a user: to the guard, to the database, and only then is what the
// cache may have of the name out of date.
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
