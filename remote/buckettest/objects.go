package buckettest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/shaledb/shale/remote"
)

// Single objects: their bytes, their checksums, and what Put, ReadAt, Stat and Delete promise of
// each.

// sizes puts objects of many sizes, from nothing to several parts of an upload, in both ways.
func (s *suite) sizes() {
	// Sizes lie around those at which buckets change their ways: nothing, a page, a buffer of 1
	// MiB, and more than the 5 MiB that a part of an upload has at least.
	for i, size := range []int{0, 1, 511, 4096, 1<<20 - 1, 1 << 20, 1<<20 + 1, 9 << 20} {
		data := pattern(size, uint64(i))
		s.must(remote.PutObject(s.ctx, s.b, "new/object", data, true))
		s.is("new/object", data)
		s.must(s.b.Delete(s.ctx, "new/object"))
		s.put("object", data)
		s.is("object", data)
		got, err := remote.ReadObject(s.ctx, s.b, "object", int64(size))
		if err != nil || !bytes.Equal(got, data) {
			s.Errorf("ReadObject = %s, %v; want %s", brief(got), err, brief(data))
		}
	}
	if got, err := remote.ReadObject(s.ctx, s.b, "object", 9<<20-1); err == nil {
		s.Errorf("ReadObject of more than allowed = %s", brief(got))
	}
}

// reads reads parts of an object, from the beginning and from the end.
func (s *suite) reads() {
	data := pattern(1000, 1)
	s.put("object", data)
	s.put("empty", nil)
	for _, c := range []struct {
		name   string
		off    int64
		length int
		want   []byte
	}{
		{"object", 0, 1000, data},
		{"object", 0, 1, data[:1]},
		{"object", 999, 1, data[999:]},
		{"object", 10, 500, data[10:510]},
		{"object", 990, 20, data[990:]},
		{"object", 1000, 1, nil},
		{"object", 5000, 100, nil},
		{"object", 1 << 40, 1, nil},
		{"object", -1, 1, data[999:]},
		{"object", -1, 84, data[916:]},
		{"object", -1000, 1000, data},
		{"object", -1 << 40, 1001, data},
		{"empty", 0, 1, nil},
		{"empty", 7, 3, nil},
		{"empty", -1, 10, nil},
	} {
		// One byte more than is asked for shows whether a bucket writes behind the end of p.
		p := bytes.Repeat([]byte{0xee}, c.length+1)
		n, err := s.b.ReadAt(s.ctx, c.name, p[:c.length], c.off)
		if !bytes.Equal(p[:n], c.want) || p[c.length] != 0xee {
			s.Errorf("ReadAt(%s, %d bytes at %d) = %s, want %s", c.name, c.length, c.off, brief(p[:n]), brief(c.want))
		}
		// io.EOF itself, as a caller may compare.
		if short := n < c.length; short && err != io.EOF || !short && err != nil {
			s.Errorf("ReadAt(%s, %d bytes at %d) = %d, %v", c.name, c.length, c.off, n, err)
		}
	}
}

// absent creates an object where one is.
func (s *suite) absent() {
	first, second := []byte("first"), []byte("second")
	s.must(remote.PutObject(s.ctx, s.b, "m/1", first, true))
	// The same bytes are refused too. Whether the object is one's own is for the caller to find
	// out.
	for _, again := range [][]byte{second, first, nil} {
		if err := remote.PutObject(s.ctx, s.b, "m/1", again, true); !errors.Is(err, remote.ErrExists) || !errors.Is(err, fs.ErrExist) {
			s.Errorf("Put of a name that is taken: %v, want ErrExists", err)
		}
		s.is("m/1", first)
	}
	s.must(remote.PutObject(s.ctx, s.b, "m/2", nil, true))
	if err := remote.PutObject(s.ctx, s.b, "m/2", second, true); !errors.Is(err, remote.ErrExists) {
		s.Errorf("Put of the name of an empty object: %v, want ErrExists", err)
	}
	s.is("m/2", nil)
	s.must(s.b.Delete(s.ctx, "m/1"))
	s.must(remote.PutObject(s.ctx, s.b, "m/1", second, true))
	s.is("m/1", second)
}

// replace puts an object where one is.
func (s *suite) replace() {
	// A shorter object must leave nothing of a longer one.
	for _, data := range [][]byte{[]byte("long enough"), []byte("short"), nil, pattern(70000, 1), []byte("end")} {
		s.put("t/3f/object", data)
		s.is("t/3f/object", data)
	}
}

// checksum puts objects that do not have the checksum that is stated for them.
func (s *suite) checksum() {
	for _, size := range []int{0, 1, 5000, 9 << 20} {
		data := pattern(size, 3)
		for _, absent := range []bool{true, false} {
			// The first has one wrong bit, and the second no right one.
			for _, wrong := range []uint32{remote.Checksum(data) ^ 1, ^remote.Checksum(data)} {
				err := s.b.Put(s.ctx, "bad", bytes.NewReader(data), int64(size), wrong, absent)
				if !errors.Is(err, remote.ErrChecksum) {
					s.Errorf("Put of %d bytes with a wrong checksum, absent %v: %v, want ErrChecksum", size, absent, err)
				}
			}
		}
		s.isAbsent("bad")
	}
	// An object that is there must survive a Put that is refused.
	good := []byte("good")
	s.put("kept", good)
	if err := s.b.Put(s.ctx, "kept", strings.NewReader("evil"), 4, remote.Checksum(good), false); !errors.Is(err, remote.ErrChecksum) {
		s.Errorf("Put of other bytes: %v, want ErrChecksum", err)
	}
	s.is("kept", good)
}

// shortBody puts bodies that do not have the bytes that they should have.
func (s *suite) shortBody() {
	whole := pattern(100, 4)
	for _, absent := range []bool{true, false} {
		// The last size is more than any server takes. The body ends early all the same, and that
		// is the error.
		for _, size := range []int64{101, 5 << 20, 1 << 50} {
			err := s.b.Put(s.ctx, "short", bytes.NewReader(whole), size, remote.Checksum(whole), absent)
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				s.Errorf("Put of %d bytes of 100: %v, want io.ErrUnexpectedEOF", size, err)
			}
		}
		if err := s.b.Put(s.ctx, "short", bytes.NewReader(whole), -1, 0, absent); err == nil {
			s.Error("Put of -1 bytes succeeded")
		}
		if err := s.b.Put(s.ctx, "short", brokenBody{}, 10, 0, absent); !errors.Is(err, errBroken) {
			s.Errorf("Put of a body that can't be read: %v, want its error", err)
		}
	}
	s.isAbsent("short")
	// Bytes behind the size are not part of the object.
	s.must(s.b.Put(s.ctx, "part", bytes.NewReader(whole), 60, remote.Checksum(whole[:60]), true))
	s.is("part", whole[:60])
}

// errBroken must come back from Put, so that a caller sees what is wrong with its own file.
var errBroken = errors.New("the body can't be read")

// A brokenBody fails when it is read.
type brokenBody struct{}

func (brokenBody) ReadAt([]byte, int64) (int, error) { return 0, errBroken }

// bodyIsCopied overwrites a body after Put, and the bytes that ReadAt has returned.
// Callers use the memory of a body again as soon as Put has returned.
func (s *suite) bodyIsCopied() {
	data := pattern(3000, 5)
	body := bytes.Clone(data)
	s.put("object", body)
	clear(body)
	s.is("object", data)
	p := make([]byte, len(data))
	_, err := s.b.ReadAt(s.ctx, "object", p, 0)
	s.must(err)
	clear(p)
	s.is("object", data)
}

// deletes deletes objects that are there, and that are not.
func (s *suite) deletes() {
	s.must(s.b.Delete(s.ctx, "never/was"))
	s.put("w/1/a", []byte("a"))
	s.put("w/1/b", []byte("b"))
	// These are the folders of objects and no objects themselves.
	s.must(s.b.Delete(s.ctx, "w/1"))
	s.must(s.b.Delete(s.ctx, "w"))
	s.is("w/1/a", []byte("a"))
	for range 2 {
		s.must(s.b.Delete(s.ctx, "w/1/a"))
		s.isAbsent("w/1/a")
	}
	s.is("w/1/b", []byte("b"))
	s.must(s.b.Delete(s.ctx, "w/1/b"))
	if names := s.list("", ""); len(names) > 0 {
		s.Errorf("List = %q after everything was deleted", names)
	}
	s.put("w/1/a", []byte("again"))
	s.is("w/1/a", []byte("again"))
}

// cancel calls everything with a context that is done. Nothing may happen.
func (s *suite) cancel() {
	s.put("object", []byte("here"))
	done, cancel := context.WithCancel(s.ctx)
	cancel()
	data := []byte("gone")
	// Requests are given up all the time: by Close, by timeouts, by programs. One that has not
	// begun must not take effect.
	calls := map[string]func() error{
		"Put":    func() error { return remote.PutObject(done, s.b, "object", data, false) },
		"Create": func() error { return remote.PutObject(done, s.b, "other", data, true) },
		"Delete": func() error { return s.b.Delete(done, "object") },
		"Stat":   func() error { _, err := s.b.Stat(done, "object"); return err },
		"ReadAt": func() error { _, err := s.b.ReadAt(done, "object", make([]byte, 4), 0); return err },
		"List": func() error {
			for _, err := range s.b.List(done, "", "") {
				return err
			}
			return nil
		},
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, context.Canceled) {
			s.Errorf("%s with a cancelled context: %v, want context.Canceled", name, err)
		}
	}
	s.is("object", []byte("here"))
	s.isAbsent("other")
}
