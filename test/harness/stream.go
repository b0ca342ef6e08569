package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A Stream is the writes of one writer, numbered from 1. The same seed gives the same writes in every
// process, so that one process can check what another has written. Streams with different names have
// no key in common, so that several can share a store.
//
// A stream also keeps how much of it a store is known to hold. One goroutine uses it at a time.
type Stream struct {
	Name string
	N    int   // how many of its writes the store holds for good
	Held State // what these lead to

	seed   uint64
	source *Source
}

// NewStream returns a stream that changes the given number of keys, of which the store holds nothing.
func NewStream(name string, seed uint64, keys int) *Stream {
	s := &Stream{Name: name, seed: seed ^ entryHash(Entry{Key: name})}
	var all []string
	for i := range keys {
		all = append(all, fmt.Sprintf("%s-k%05d", name, i))
	}
	s.source = NewSource(all)
	s.source.Exact = true
	return s
}

// Write returns the n-th write. Besides some keys it puts one with its number, so that no two writes
// lead to the same state. It is not synced.
func (s *Stream) Write(n int) Write {
	s.source.Rand = rand.New(rand.NewPCG(s.seed, uint64(n)))
	s.source.Serial = int64(n) << 8
	w := Write{Own: true, Durability: shale.SyncManual}
	w.Ops = append(w.Ops, shale.Op{Kind: shale.OpPut, Key: s.countKey(), Value: strconv.AppendInt(nil, int64(n), 10)})
	for range s.source.IntN(6) {
		w.Ops = append(w.Ops, s.source.Op())
	}
	return w
}

func (s *Stream) countKey() []byte { return []byte(s.Name + "-count") }

// Count returns the number of the last write that a store shows, 0 if there is none.
func (s *Stream) Count(r shale.Reader) (int, error) {
	value, err := r.Get(s.countKey())
	if errors.Is(err, shale.ErrNotFound) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(value))
}

// Claim returns what may be found of the stream when safe writes must be there and begun ones may be.
func (s *Stream) Claim(safe, begun int) Claim {
	c := Claim{Base: s.Held, Safe: max(safe-s.N, 0)}
	for n := s.N + 1; n <= begun; n++ {
		c.Commits = append(c.Commits, Commit{Ops: s.Write(n).Ops})
	}
	return c
}

// Read returns what r holds of the stream.
func (s *Stream) Read(r shale.Reader) (State, error) {
	return ReadRange(r, shale.Prefix(s.Name+"-"))
}

// Check compares what r holds of the stream with its first writes: at least safe of them must be
// there, at most begun, and not fewer than at the last Check. From then on N is their number.
func (s *Stream) Check(r shale.Reader, safe, begun int) error {
	found, err := s.Read(r)
	if err != nil {
		return err
	}
	n, err := s.Claim(safe, begun).Check(found)
	if err != nil {
		return fmt.Errorf("stream %s, of which %d writes were there, %d are safe and %d were begun: %w", s.Name, s.N, safe, begun, err)
	}
	s.N, s.Held = s.N+n, found
	return s.checkKeys(r)
}

// checkKeys asks for some keys of the stream that are there, and for some that are not.
func (s *Stream) checkKeys(r shale.Reader) error {
	there := s.Held.Entries()
	for i := 0; i < len(there); i += max(1, len(there)/8) {
		if v, err := r.Get([]byte(there[i].Key)); err != nil || string(v) != there[i].Value {
			return fmt.Errorf("Get(%q) = %.40q, %w; Scan has %.40q", there[i].Key, v, err, there[i].Value)
		}
	}
	asked := 0
	for _, key := range s.source.Keys {
		if _, is := s.Held.Get(key); is {
			continue
		}
		if has, err := r.Has([]byte(key)); has || err != nil {
			return fmt.Errorf("Has(%q) = %v, %w; it is not there", key, has, err)
		}
		if asked++; asked == 8 {
			break
		}
	}
	return nil
}

// Leave makes the first n writes of the stream to the store in dir, and leaves the store closed, or as
// the death of its process does.
func (s *Stream) Leave(dir string, opts shale.Options, n int, closed bool) error {
	disk := faultfs.New(vfs.Default, nil)
	opts.FS = disk
	db, err := shale.Open(dir, &opts)
	if err != nil {
		return fmt.Errorf("Open: %w", err)
	}
	for i := s.N + 1; i <= n; i++ {
		if err := db.Write(context.Background(), s.Write(i).Batch()); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	err = s.Check(db, n, n)
	if !closed {
		Die(db, disk)
		return err
	}
	return errors.Join(err, Close(db))
}
