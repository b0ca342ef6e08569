package main

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/test/harness"
)

// A keyspace is what a child knows of all keys at any moment.
type keyspace struct {
	seed     uint64
	sections [writers]*section
}

// A section is the keys of one writer.
type section struct {
	writer int
	slots  int

	// mu is held during each commit: who holds it sees the section stand still.
	mu      sync.Mutex
	settled uint64

	begun  atomic.Uint64
	stamps []atomic.Uint64 // stamp; written under mu
}

func newKeyspace(seed uint64, m *model) *keyspace {
	k := &keyspace{seed: seed}
	for w := range k.sections {
		s := &section{writer: w, slots: len(m.Stamps[w]), settled: m.Settled[w]}
		s.begun.Store(s.settled)
		s.stamps = make([]atomic.Uint64, s.slots)
		for i, v := range m.Stamps[w] {
			s.stamps[i].Store(uint64(v))
		}
		k.sections[w] = s
	}
	return k
}

func (s *section) at(slot int) stamp { return stamp(s.stamps[slot].Load()) }

// copyStamps returns the stamps of the slots from lo to hi.
func (s *section) copyStamps(lo, hi int) []stamp {
	c := make([]stamp, hi-lo)
	for i := range c {
		c[i] = s.at(lo + i)
	}
	return c
}

// state returns the entries of the slots from lo to hi. Requires: mu of the
// section is held.
func (k *keyspace) state(s *section, lo, hi int) harness.State {
	var entries []harness.Entry
	for slot := lo; slot < hi; slot++ {
		if v := s.at(slot).visible(); v != 0 {
			entries = append(entries, harness.Entry{
				Key: string(appendKey(nil, k.seed, s.writer, slot)), Value: string(appendValue(nil, k.seed, s.writer, slot, v)),
			})
		}
	}
	return harness.StateOf(entries)
}

// copyAll returns the stamps of all slots.
func (k *keyspace) copyAll() (all [writers][]stamp) {
	for w, s := range k.sections {
		all[w] = s.copyStamps(0, s.slots)
	}
	return all
}

// begun returns the number of the last commit that each writer has begun.
func (k *keyspace) begun() (all [writers]uint64) {
	for w, s := range k.sections {
		all[w] = s.begun.Load()
	}
	return all
}

// doubt marks in stamps the slots of all commits from those given on as being
// changed: who opens the store beside its owner may see commits that failed for
// the owner, until those are settled.
func (k *keyspace) doubt(stamps *[writers][]stamp, from [writers]uint64) {
	for w, s := range k.sections {
		for n, last := max(from[w], 1), s.begun.Load(); n <= last; n++ {
			c := commitOf(k.seed, w, n, s.slots)
			for _, ch := range c.changes {
				stamps[w][ch.slot] |= busy
			}
		}
	}
}

// mark notes that a commit is about to change slots. Requires: mu is held.
func (s *section) mark(c *commit, changes []change) {
	s.begun.Store(c.number)
	for _, ch := range changes {
		s.stamps[ch.slot].Store(uint64(s.at(ch.slot) | busy))
	}
}

// settle ends what mark began. Until all changes are noted, of which several may
// concern one slot, all stay marked. Requires: mu is held.
func (s *section) settle(changes []change, there bool) {
	if there {
		for _, ch := range changes {
			s.stamps[ch.slot].Store(uint64(ch.stamp | busy))
		}
	}
	for _, ch := range changes {
		s.stamps[ch.slot].Store(uint64(s.at(ch.slot) &^ busy))
	}
}

// checkSlot compares what a read of a slot found with the stamps before and
// after it. got is 0 for an absent key.
func (s *section) checkSlot(slot int, got, before, after stamp) error {
	if before == after && before&busy == 0 {
		if got != before.visible() {
			return violationf("slot %d of writer %d: %v is there, want %v", slot, s.writer, got, before)
		}
		return nil
	}
	// It was changed meanwhile: by how many commits, nobody knows.
	if got != 0 && (got.commit() < before.commit() || got.commit() > s.begun.Load()) {
		return violationf("slot %d of writer %d: %v is there; it was %v before the read and %v after it", slot, s.writer, got, before, after)
	}
	return nil
}

func (s stamp) String() string {
	text := fmt.Sprintf("operation %d of commit %d", s>>opShift&(maxChanges-1), s.commit())
	if s == 0 {
		text = "nothing"
	}
	if s&deleted != 0 {
		text += " (a deletion)"
	}
	if s&busy != 0 {
		text += " (being changed)"
	}
	return text
}

// scan walks r over the range and calls visit for each entry, after checking
// order, bounds, key and value. In a scan of keys only the stamp is 0.
func (k *keyspace) scan(r shale.Reader, rg shale.Range, visit func(writer, slot int, s stamp) error) error {
	var last, buf []byte
	for e, err := range r.Scan(rg) {
		if err != nil {
			return fmt.Errorf("calling Scan: %w", err)
		}
		if rg.Lower != nil && string(e.Key) < string(rg.Lower) || rg.Upper != nil && string(e.Key) >= string(rg.Upper) {
			return violationf("a scan from %q to %q has %q", rg.Lower, rg.Upper, e.Key)
		}
		if last != nil && (string(last) < string(e.Key)) == rg.Reverse || string(last) == string(e.Key) {
			return violationf("a scan (reverse: %v) has %q after %q", rg.Reverse, e.Key, last)
		}
		last = append(last[:0], e.Key...)
		w, slot, err := parseKey(e.Key, k.seed)
		if err != nil {
			return err
		}
		if slot >= k.sections[w].slots {
			return violationf("key %q was never written", e.Key)
		}
		var s stamp
		if !rg.KeysOnly {
			if s, err = readValue(e.Value, k.seed, w, slot, &buf); err != nil {
				return err
			}
		}
		if err := visit(w, slot, s); err != nil {
			return err
		}
	}
	return nil
}

// rangeOf returns the range of the slots from lo to hi of a writer.
func (k *keyspace) rangeOf(writer, lo, hi int) shale.Range {
	return shale.Range{
		Lower: appendKey(nil, k.seed, writer, lo)[:1+slotDigits],
		Upper: appendKey(nil, k.seed, writer, hi)[:1+slotDigits],
	}
}

// collect returns the stamps that r has for the slots from lo to hi.
func (k *keyspace) collect(r shale.Reader, writer, lo, hi int, reverse bool) ([]stamp, error) {
	got := make([]stamp, hi-lo)
	rg := k.rangeOf(writer, lo, hi)
	rg.Reverse = reverse
	return got, k.scan(r, rg, func(_, slot int, s stamp) error {
		got[slot-lo] = s
		return nil
	})
}

// checkStamps compares what was collected from slot lo on.
func (s *section) checkStamps(lo int, got, before, after []stamp) error {
	for i := range got {
		if err := s.checkSlot(lo+i, got[i], before[i], after[i]); err != nil {
			return err
		}
	}
	return nil
}
