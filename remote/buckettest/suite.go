// Package buckettest tests implementations of remote.Bucket, and makes the faults of networks and
// servers for tests of programs that use one. It is for tests only.
//
//   - Run checks that a bucket does all that remote.Bucket says.
//   - Faulty lies over a bucket and loses, delays, repeats and damages what passes through it.
package buckettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"testing"

	"github.com/shaledb/shale/remote"
)

// The frame of the suite. Each test gets a bucket of its own, and looks at an object in all ways
// that there are after each change.

// Run runs all tests of the suite. open returns a bucket without objects, for this test alone; it
// is called for each test. It may use t.Cleanup to close it. Objects have 9 MiB at most, and one
// test makes 1,100 of them, more than servers return in one list.
func Run(t *testing.T, open func(t *testing.T) remote.Bucket) {
	for _, test := range []struct {
		name string
		run  func(s *suite)
	}{
		{"Sizes", (*suite).sizes},
		{"ReadAt", (*suite).reads},
		{"Absent", (*suite).absent},
		{"Replace", (*suite).replace},
		{"Checksum", (*suite).checksum},
		{"ShortBody", (*suite).shortBody},
		{"BodyIsCopied", (*suite).bodyIsCopied},
		{"Delete", (*suite).deletes},
		{"Names", (*suite).names},
		{"ListOrder", (*suite).listOrder},
		{"ListPages", (*suite).listPages},
		{"ListEnds", (*suite).listEnds},
		{"Cancel", (*suite).cancel},
		{"CreatorsRace", (*suite).creatorsRace},
		{"WritersRace", (*suite).writersRace},
		{"DeletersRace", (*suite).deletersRace},
		{"ListRace", (*suite).listRace},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(&suite{T: t, ctx: t.Context(), b: open(t)})
		})
	}
}

// A suite is one test with its bucket.
type suite struct {
	*testing.T
	ctx context.Context
	b   remote.Bucket
}

// must fails the test if err is not nil.
func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// put makes an object, which may be there already.
func (s *suite) put(name string, data []byte) {
	s.Helper()
	s.must(remote.PutObject(s.ctx, s.b, name, data, false))
}

// is fails the test if an object is not there with these bytes, as all calls see it.
// A bucket may answer one call from a cache and another from a disk, so Stat, ReadAt and List are
// all asked.
func (s *suite) is(name string, data []byte) {
	s.Helper()
	info, err := s.b.Stat(s.ctx, name)
	if want := (remote.Info{Name: name, Size: int64(len(data)), CRC32C: remote.Checksum(data)}); err != nil || info != want {
		s.Errorf("Stat(%q) = %+v, %v; want %+v", name, info, err, want)
	}
	// One byte more than there should be finds an object that is too long.
	buf := make([]byte, len(data)+1)
	n, err := s.b.ReadAt(s.ctx, name, buf, 0)
	if err != io.EOF || !bytes.Equal(buf[:n], data) {
		s.Errorf("ReadAt(%q) = %s, %v; want %s", name, brief(buf[:n]), err, brief(data))
	}
	for info, err := range s.b.List(s.ctx, name, "") {
		if want := (remote.Info{Name: name, Size: int64(len(data))}); err != nil || info != want {
			s.Errorf("List(%q) begins with %+v, %v; want %+v", name, info, err, want)
		}
		return
	}
	// The loop above returns with the first object, so the list has none.
	s.Errorf("List(%q) is empty", name)
}

// isAbsent fails the test if there is an object, as any call sees it.
func (s *suite) isAbsent(name string) {
	s.Helper()
	if info, err := s.b.Stat(s.ctx, name); !errors.Is(err, fs.ErrNotExist) {
		s.Errorf("Stat(%q) = %+v, %v; want fs.ErrNotExist", name, info, err)
	}
	// An absent object has no end, so none of these reads may answer io.EOF.
	for _, off := range []int64{0, 5, -1} {
		if n, err := s.b.ReadAt(s.ctx, name, make([]byte, 3), off); n != 0 || !errors.Is(err, fs.ErrNotExist) {
			s.Errorf("ReadAt(%q, %d) = %d, %v; want fs.ErrNotExist", name, off, n, err)
		}
	}
	if names := s.list(name, ""); slices.Contains(names, name) {
		s.Errorf("List has %q", name)
	}
}

// list returns the names of a whole list.
func (s *suite) list(prefix, after string) []string {
	s.Helper()
	names := []string{}
	for info, err := range s.b.List(s.ctx, prefix, after) {
		s.must(err)
		names = append(names, info.Name)
	}
	return names
}

// brief returns the length and the first bytes of b.
func brief(b []byte) string {
	return fmt.Sprintf("%d bytes, %.32q", len(b), b)
}

// pattern returns bytes that differ at all offsets near each other.
// A part that is shifted, repeated or of another object then never passes for the right one.
func pattern(size int, seed uint64) []byte {
	b := make([]byte, size)
	x := seed*2 + 1
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
	return b
}
