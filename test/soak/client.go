package main

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/test/harness"
)

// numClients is how many goroutines use the store at once, each its own keys.
const numClients = 20

// Clients do those of the operations that are about keys, and write more than programs do.
var (
	writing    = named(4, "put", "delete", "batch", "putIfAbsent", "update", "ingest")
	operations = slices.Concat(writing, named(1, "lookup", "getMany", "mayContain", "mayContainMany", "scan", "snapshot",
		"iterator", "move", "exportFilters", "refused"))
	keeping = named(1, "sync", "flush", "compact", "verify", "rebuildFilters", "tables")
)

func named(times int, names ...string) (some []harness.Operation) {
	for _, o := range harness.Operations {
		if o.Weight *= times; slices.Contains(names, o.Name) {
			some = append(some, o)
		}
	}
	return some
}

// A client uses the store by steps, one after the other, and knows what each has to
// answer. Of the writes of a step that was under way when its process died there may be
// the first ones: these commits are pending.
type client struct {
	name    string
	number  int
	step    int // the last one
	state   harness.State
	pending []harness.Commit
	journal *os.File
	source  *harness.Source
	r       *rand.Rand
	stopped bool // what became of its last commit is known after the next Open
	shown   atomic.Pointer[shown]
}

// A shown is what others may see of a client's keys, the n-th in turn.
type shown struct {
	n int
	harness.Claim
}

// show lets others see the client's state, and perhaps what is pending.
func (c *client) show() {
	n := 0
	if last := c.shown.Load(); last != nil {
		n = last.n + 1
	}
	c.shown.Store(&shown{n, harness.Claim{Base: c.state, Commits: c.pending}})
}

func newClients(o order) ([]*client, error) {
	m, err := loadModel(filepath.Join(o.Dir, "model"))
	if err != nil {
		return nil, err
	}
	journal, err := os.OpenFile(filepath.Join(o.Dir, "journal"), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	var all []*client
	for i := range numClients {
		all = append(all, &client{name: clientName(i), number: i, state: harness.StateOf(m.Entries[i]), pending: m.Pending[i],
			journal: journal, source: newSource(o.Seed, o.Life, o.Keys, i), r: draws(o.Seed, "client", o.Life, i)})
	}
	return all, nil
}

func clientName(i int) string { return string(rune('a'+i)) + "-" }

// newSource returns what the steps of a client in a life are drawn from.
func newSource(seed uint64, life, keys, client int) *harness.Source {
	all := make([]string, keys)
	for i := range all {
		all[i] = fmt.Sprintf("%s%07x%s", clientName(client), i*7, strings.Repeat("k", i*i%16))
	}
	s := harness.NewSource(all)
	s.Rand, s.Exact, s.Serial = draws(seed, "steps", life, client), true, int64(life*numClients+client)<<32
	return s
}

const entrySize = 12

// note notes in the journal that n commits of a step are there for good. A write call does
// it, so it is known when the process is killed.
func (c *client) note(step, n int) error {
	var b [entrySize]byte
	binary.LittleEndian.PutUint32(b[:], uint32(c.number))
	binary.LittleEndian.PutUint32(b[4:], uint32(step))
	binary.LittleEndian.PutUint32(b[8:], uint32(n))
	_, err := c.journal.Write(b[:])
	return err
}

// after returns the state after commits.
func after(s harness.State, commits []harness.Commit) harness.State {
	var ops []shale.Op
	for _, c := range commits {
		ops = append(ops, c.Ops...)
	}
	return s.With(ops...)
}

// found settles which of the pending commits are there. Requires: the client does nothing else.
func (c *client) found(r shale.Reader, reverse bool) error {
	rg := shale.Prefix(c.name)
	rg.Reverse = reverse
	found, err := harness.ReadRange(r, rg)
	if err != nil {
		return err
	}
	n, err := harness.Claim{Base: c.state, Commits: c.pending}.Check(found)
	if err != nil {
		return violationf("client %s after step %d: %v", c.name, c.step, err)
	}
	if len(c.pending) > 0 {
		err = c.note(c.step, n)
	}
	c.state, c.pending, c.stopped = found, nil, false
	c.show()
	return err
}

// A part is the keys of one client in a store.
type part struct {
	*harness.Real
	prefix shale.Range
}

func newPart(db *shale.DB, name string) part { return part{harness.NewReal(db), shale.Prefix(name)} }

// clip returns r without what is not between the bounds.
func clip(r, bounds shale.Range) shale.Range {
	if string(r.Lower) < string(bounds.Lower) {
		r.Lower = bounds.Lower
	}
	if r.Upper == nil || string(r.Upper) > string(bounds.Upper) {
		r.Upper = bounds.Upper
	}
	return r
}

func (p part) Iterator(r shale.Range) harness.Iterator { return p.Real.Iterator(clip(r, p.prefix)) }

func (p part) Scan(r shale.Range) iter.Seq2[shale.Entry, error] {
	return p.Real.Scan(clip(r, p.prefix))
}

func (p part) Snapshot() (harness.Snapshot, error) {
	s, err := p.Real.Snapshot()
	return snapshotPart{readerPart{s, p.prefix}, s}, err
}

func (p part) Update(w harness.Write, before, after func(r harness.Reader)) error {
	within := func(look func(r harness.Reader)) func(r harness.Reader) {
		return func(r harness.Reader) { look(readerPart{r, p.prefix}) }
	}
	return p.Real.Update(w, within(before), within(after))
}

type readerPart struct {
	harness.Reader
	prefix shale.Range
}

func (p readerPart) Iterator(r shale.Range) harness.Iterator {
	return p.Reader.Iterator(clip(r, p.prefix))
}

func (p readerPart) Scan(r shale.Range) iter.Seq2[shale.Entry, error] {
	return p.Reader.Scan(clip(r, p.prefix))
}

type snapshotPart struct {
	readerPart
	s harness.Snapshot
}

func (p snapshotPart) Close() error { return p.s.Close() }

// use has a client do steps until the session is to end.
func (s *session) use(c *client) error {
	store := newPart(s.db, c.name)
	real, model := &harness.Side{Store: store}, &harness.Side{}
	letGo := func() { _, _ = model.LetGo(), real.LetGo() } // after an error they need not agree
	defer letGo()
	for s.running() && !c.stopped {
		c.step++
		step := c.source.Draw(operations)
		m := harness.NewModelAt(c.state, 0)
		model.Store = m
		want := step.Do(model)
		if c.pending, _ = m.Commits(); len(c.pending) > 0 {
			c.show()
		}
		store.Err = nil
		begun, got := s.disk.weather.Load(), ""
		err := s.call("client "+c.name, func() error { got = step.Do(real); return store.Err })
		s.counts[steps].Add(1)
		if got == want {
			err = nil // what every store refuses
		}
		switch {
		case err != nil && !s.disk.excuses(begun, err, writes(step)):
			return fmt.Errorf("%s: %w", step, err)
		case err != nil:
			letGo()
			s.counts[failed].Add(1)
			if err := s.outcome(c, step); err != nil {
				return err
			}
			continue
		case step.Fits != nil:
			if err := step.Fits(c.state, got); err != nil {
				return violationf("%.200s: %v", step, err)
			}
		case got != want:
			return violationf("%.200s =\n%s\nwant\n%s", step, got, want)
		}
		n := len(c.pending)
		c.state, c.pending = m.Now(), nil
		if n > 0 {
			c.show()
			s.counts[commits].Add(uint64(n))
			if err := c.note(c.step, n); err != nil {
				return err
			}
		}
		if c.r.IntN(16) == 0 {
			s.pause(s.pace * 16)
		}
	}
	return nil
}

// observe looks at the keys of clients while they work: each commit is there as a whole or not at all,
// from its call on and from its return at the latest.
func (s *session) observe() {
	r := s.rand("observer")
	for s.pause(between(r, 100*time.Microsecond, 20*time.Millisecond)) {
		c := s.clients[r.IntN(len(s.clients))]
		before, begun := c.shown.Load(), s.disk.weather.Load()
		err := s.call("observer", func() error {
			snap, err := s.db.Snapshot()
			if err != nil {
				return err
			}
			after := c.shown.Load()
			found, err := harness.ReadRange(snap, shale.Prefix(c.name))
			if err = errors.Join(err, snap.Close()); err != nil || after.n > before.n+1 {
				return err
			}
			if _, err = before.Check(found); err != nil {
				_, err = after.Check(found)
			}
			if err != nil {
				return violationf("a snapshot of the keys of client %s: %v", c.name, err)
			}
			return nil
		})
		if err != nil && !s.disk.excuses(begun, err, false) {
			s.fail(err)
		}
	}
}

// outcome finds out what became of a step that failed. Once the store takes writes again, its
// commit stays as it is, but for an ingestion, of which the manifest may have been told: the
// next Open tells.
func (s *session) outcome(c *client, step harness.Step) error {
	if len(c.pending) == 0 {
		return nil
	}
	c.stopped = true
	if step.Name == "ingest" {
		return nil
	}
	for s.db.Err() != nil {
		if !s.pause(s.pace) {
			return nil
		}
	}
	for s.pause(s.pace) { // a commit may still wait for room
		if err := c.found(s.db, false); !harness.IsInjected(err) {
			return err
		}
	}
	return nil
}

// A model is what a store must hold when its child is dead: the entries of each client, and
// the first of the commits that were pending, or none.
type model struct {
	Entries [numClients][]harness.Entry
	Pending [numClients][]harness.Commit
}

// settle draws the steps of a life again, and takes those commits that the journal has. A
// child that was killed early has not written one.
func (m *model) settle(seed uint64, life, keys int, journal string) error {
	text, err := os.ReadFile(journal)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	type noted struct{ step, commits int }
	var all [numClients][]noted
	for ; len(text) >= entrySize; text = text[entrySize:] {
		client := binary.LittleEndian.Uint32(text)
		all[client] = append(all[client], noted{int(binary.LittleEndian.Uint32(text[4:])), int(binary.LittleEndian.Uint32(text[8:]))})
	}
	for i, notes := range all {
		state, pending := harness.StateOf(m.Entries[i]), m.Pending[i]
		source, step := newSource(seed, life, keys, i), 0
		for _, note := range notes {
			for ; step < note.step; step++ {
				pending = commitsOf(source.Draw(operations), state)
			}
			if note.commits > len(pending) {
				return fmt.Errorf("client %d has noted %d commits of step %d, which has %d", i, note.commits, step, len(pending))
			}
			state, pending = after(state, pending[:note.commits]), nil
		}
		for len(pending) == 0 { // the step that may have been under way
			pending = commitsOf(source.Draw(operations), state)
		}
		m.Entries[i], m.Pending[i] = state.Entries(), pending
	}
	return nil
}

func writes(step harness.Step) bool {
	return slices.ContainsFunc(writing, func(o harness.Operation) bool { return o.Name == step.Name })
}

// commitsOf returns what a step commits that is done in a state.
func commitsOf(step harness.Step, s harness.State) []harness.Commit {
	if !writes(step) {
		return nil
	}
	m := harness.NewModelAt(s, 0)
	step.Do(&harness.Side{Store: m})
	commits, _ := m.Commits()
	return commits
}

func (m *model) save(path string) error {
	var b bytes.Buffer
	return errors.Join(gob.NewEncoder(&b).Encode(m), os.WriteFile(path, b.Bytes(), 0o666))
}

func loadModel(path string) (*model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := new(model)
	return m, gob.NewDecoder(f).Decode(m)
}
