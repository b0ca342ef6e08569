package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/shaledb/shale/bundle"
)

// load reads the file and serves it from now on. If it can't be used, what was
// served stays. Requests under way end with the bundle that they began with.
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
	s.loaded = info // also if it can't be used: it is not tried again until it changes
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

// changed tells whether the file is another one than was loaded last.
func (s *server) changed() bool {
	info, err := os.Stat(s.file)
	if err != nil {
		return false // a file that is gone for a moment is not news
	}
	was := s.loaded
	return !os.SameFile(info, was) || info.Size() != was.Size() || !info.ModTime().Equal(was.ModTime())
}

// watch loads the file when it has changed or a signal asks for it.
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
