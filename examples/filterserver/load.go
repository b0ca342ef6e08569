package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/shaledb/shale/bundle"
)

// load reads the file and serves it from then on. If the file cannot be used, the server
// goes on with the bundle that it has. A request that has begun uses the bundle of its
// beginning until it ends. Requires: one call at a time.
func (s *server) load() error {
	f, err := os.Open(s.file)
	if err != nil {
		return err
	}
	defer f.Close() // opened for reading
	info, err := f.Stat()
	if err != nil {
		return err
	}
	s.loaded = info // also if it can't be used: it is tried again only when it changes
	b, err := bundle.Read(f, s.maxBundle)
	if err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	if err := b.Err(); err != nil {
		s.logf("%s: %v", s.file, err)
	}
	s.current.Store(b)
	s.logf("serving %s: %d keys, %d bytes, sequence number %d", s.file, b.Keys(), b.SizeBytes(), b.Seq())
	return nil
}

// changed reports whether the file is another one than load has tried last.
func (s *server) changed() bool {
	info, err := os.Stat(s.file)
	if err != nil {
		return false // it may be gone for a moment only
	}
	was := s.loaded
	return !os.SameFile(info, was) || info.Size() != was.Size() || !info.ModTime().Equal(was.ModTime())
}

// watch loads the file again when it has changed, and when a signal comes on hangup.
// It returns when ctx is done.
func (s *server) watch(ctx context.Context, hangup <-chan os.Signal) {
	tick := time.NewTicker(s.poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
		case <-tick.C:
			if !s.changed() {
				continue
			}
		}
		if err := s.load(); err != nil {
			s.logf("the bundle that was served stays: %v", err)
		}
	}
}
