package main

import (
	"fmt"
	"os"

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
	b, err := bundle.Read(f, maxBundle)
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
	return !os.SameFile(info, s.loaded) || info.Size() != s.loaded.Size() || !info.ModTime().Equal(s.loaded.ModTime())
}
