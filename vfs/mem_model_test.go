package vfs

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// A fileModel has all contents of one file since the last sync.
// The durable contents come first, the current ones last.
type fileModel struct {
	states [][]byte
	writes []modelWrite // writes[i] leads from states[i] to states[i+1]
	linked bool
}

type modelWrite struct {
	off  int
	data []byte // nil: a change of size
}

func (f *fileModel) now() []byte { return f.states[len(f.states)-1] }

func (f *fileModel) synced() { f.states, f.writes = [][]byte{f.now()}, nil }

func (f *fileModel) then(state []byte, w modelWrite) {
	f.states, f.writes = append(f.states, state), append(f.writes, w)
}

// written returns b after the write w.
func written(b []byte, w modelWrite) []byte {
	b = slices.Clone(b)
	if more := w.off + len(w.data) - len(b); more > 0 && len(w.data) > 0 {
		b = append(b, make([]byte, more)...)
	}
	copy(b[min(w.off, len(b)):], w.data)
	return b
}

func resized(b []byte, size int) []byte {
	return append(slices.Clone(b[:min(size, len(b))]), make([]byte, max(0, size-len(b)))...)
}

// legal returns why the file must not have the contents got after a crash.
func (f *fileModel) legal(p CrashPolicy, got []byte) error {
	durable, now := f.states[0], f.now()
	ok := false
	switch p {
	case DropAll:
		ok = bytes.Equal(got, durable)
	case KeepAll:
		ok = bytes.Equal(got, now)
	case OrderedPrefix:
		ok = f.legalPrefix(got)
	case Sectors:
		ok = slices.ContainsFunc(f.states, func(s []byte) bool { return len(s) == len(got) })
		for i := 0; ok && i < len(got); i += sectorSize {
			part := got[i:min(i+sectorSize, len(got))]
			ok = bytes.Equal(part, sectorOf(durable, i, len(part))) || bytes.Equal(part, sectorOf(now, i, len(part)))
		}
	case GrownZeros:
		ok = bytes.Equal(got, resized(durable, max(len(durable), len(now))))
	case GrownGarbage:
		ok = len(got) == max(len(durable), len(now)) && bytes.HasPrefix(got, durable)
	}
	if !ok {
		return fmt.Errorf("%v: %d bytes; durable were %d, there were %d", p, len(got), len(durable), len(now))
	}
	return nil
}

func (f *fileModel) legalPrefix(got []byte) bool {
	if bytes.Equal(got, f.now()) {
		return true
	}
	for i, w := range f.writes {
		for n := range len(w.data) + 1 {
			if bytes.Equal(got, written(f.states[i], modelWrite{w.off, w.data[:n]})) {
				return true
			}
		}
	}
	return false
}

// sectorOf returns n bytes of b from off up, with zeros after its end.
func sectorOf(b []byte, off, n int) []byte {
	return resized(b[min(off, len(b)):], n)
}

// A memModel runs a random life on a Mem and on models of its files.
type memModel struct {
	t     *testing.T
	r     *rand.Rand
	m     *Mem
	files map[uint64]*fileModel // by inode
	names []map[string]uint64   // of /d since its last sync: the durable ones first
}

var modelNames = []string{"a", "b", "c", "e"}

func newMemModel(t *testing.T, r *rand.Rand) *memModel {
	return &memModel{
		t: t, r: r, m: newMemWithDir(t, "/d"),
		files: make(map[uint64]*fileModel), names: []map[string]uint64{{}},
	}
}

func (s *memModel) now() map[string]uint64 { return s.names[len(s.names)-1] }

func (s *memModel) name() string { return modelNames[s.r.IntN(len(modelNames))] }

// change makes a new state of the names.
func (s *memModel) change(fn func(names map[string]uint64)) {
	next := maps.Clone(s.now())
	fn(next)
	s.names = append(s.names, next)
}

// step does one random operation.
func (s *memModel) step() {
	name := s.name()
	id, there := s.now()[name]
	switch n := s.r.IntN(20); {
	case n < 2:
		must(s.t, s.m.SyncDir("/d"))
		s.names = s.names[len(s.names)-1:]
	case n < 4 || !there:
		s.create(name, there)
	case n == 4:
		must(s.t, s.m.Remove("/d/"+name))
		s.change(func(names map[string]uint64) { delete(names, name) })
	case n < 7:
		s.rename(name, s.name(), id)
	case n == 7:
		s.link(name, s.name(), id)
	default:
		s.changeFile(name, s.files[id])
	}
}

func (s *memModel) create(name string, there bool) {
	f, err := s.m.Create("/d/" + name)
	must(s.t, err)
	id := f.(*memFile).n.id
	must(s.t, f.Close())
	if there {
		if model := s.files[id]; len(model.now()) > 0 {
			model.then(nil, modelWrite{})
		}
		return
	}
	s.files[id] = &fileModel{states: [][]byte{nil}}
	s.change(func(names map[string]uint64) { names[name] = id })
}

func (s *memModel) rename(from, to string, id uint64) {
	must(s.t, s.m.Rename("/d/"+from, "/d/"+to))
	if s.now()[to] == id {
		return
	}
	s.change(func(names map[string]uint64) {
		delete(names, from)
		names[to] = id
	})
}

func (s *memModel) link(name, to string, id uint64) {
	_, taken := s.now()[to]
	if err := s.m.Link("/d/"+name, "/d/"+to); (err == nil) == taken {
		s.t.Fatalf("Link to a name that is there (%v): %v", taken, err)
	}
	if taken {
		return
	}
	s.files[id].linked = true
	s.change(func(names map[string]uint64) { names[to] = id })
}

// changeFile writes, cuts or syncs.
func (s *memModel) changeFile(name string, model *fileModel) {
	f, err := s.m.OpenReadWrite("/d/" + name)
	must(s.t, err)
	defer f.Close()
	now := model.now()
	switch n := s.r.IntN(8); {
	case n < 2:
		must(s.t, f.Sync())
		model.synced()
	case n == 2:
		size := s.r.IntN(3000)
		must(s.t, f.Truncate(int64(size)))
		if size != len(now) {
			model.then(resized(now, size), modelWrite{})
		}
	default:
		w := modelWrite{len(now), make([]byte, 1+s.r.IntN(700))}
		if n > 4 {
			w.off = s.r.IntN(len(now) + 300)
		}
		if s.r.IntN(4) > 0 { // zeros else
			for i := range w.data {
				w.data[i] = byte(1 + s.r.IntN(255))
			}
		}
		_, err := f.WriteAt(w.data, int64(w.off))
		must(s.t, err)
		model.then(written(now, w), w)
	}
}

// check compares a state of the names and files with the model.
func (s *memModel) check(c CrashConfig) *Mem {
	after := s.m.Crash(c)
	names := make(map[string]uint64)
	for name, node := range after.root.names["d"].(*memDir).names {
		names[name] = node.(*inode).id
	}
	if err := s.legalNames(c.Names, names); err != nil {
		s.t.Fatalf("%v: %v", c, err)
	}
	for name, id := range names {
		if err := s.files[id].legal(c.Policy, []byte(readFile(s.t, after, "/d/"+name))); err != nil {
			s.t.Fatalf("%v: file %s: %v", c, name, err)
		}
	}
	return after
}

// legalNames returns why the names must not be these after a crash.
func (s *memModel) legalNames(p NamePolicy, got map[string]uint64) error {
	is := func(want map[string]uint64) bool { return maps.Equal(got, want) }
	ok := true
	switch p {
	case NamesDrop:
		ok = is(s.names[0])
	case NamesKeep:
		ok = is(s.now())
	case NamesPrefix:
		ok = slices.ContainsFunc(s.names, is)
	}
	if !ok {
		return fmt.Errorf("names %v of %v", got, s.names)
	}
	// A name is in one of its states, and a file that had a name all the
	// time has one: a rename is never half done.
	for _, name := range modelNames {
		if !slices.ContainsFunc(s.names, func(n map[string]uint64) bool { return n[name] == got[name] }) {
			return fmt.Errorf("name %s leads to file %d, never did in %v", name, got[name], s.names)
		}
	}
	for id, f := range s.files {
		if f.linked {
			continue
		}
		count := func(names map[string]uint64) (n int) {
			for _, have := range names {
				if have == id {
					n++
				}
			}
			return n
		}
		always := !slices.ContainsFunc(s.names, func(n map[string]uint64) bool { return count(n) == 0 })
		if n := count(got); n > 1 || always && n == 0 {
			return fmt.Errorf("file %d has %d names in %v, of %v", id, n, got, s.names)
		}
	}
	return nil
}

// restart continues with the file system after a crash. All that is in it is durable.
func (s *memModel) restart(c CrashConfig) {
	s.m = s.m.Crash(c)
	names, files := make(map[string]uint64), make(map[uint64]*fileModel)
	for name, node := range s.m.root.names["d"].(*memDir).names {
		id := node.(*inode).id
		names[name] = id
		// Linked or not is not known any more: such files are not counted.
		files[id] = &fileModel{states: [][]byte{[]byte(readFile(s.t, s.m, "/d/"+name))}, linked: true}
	}
	s.names, s.files = []map[string]uint64{names}, files
}

// Random lives crash between any two operations, under all policies. Only
// states that the policy allows may follow, synced data is never lost, the same
// seed gives the same disk, and the file system that goes on is not changed.
func TestMem_ModelOfCrashes(t *testing.T) {
	testenv.SkipRace(t)
	seed := testenv.Seed(t)
	states := 0
	for life := range uint64(16) {
		s := newMemModel(t, rand.New(rand.NewPCG(seed, life)))
		for range 60 {
			s.step()
			for _, c := range CrashConfigs(s.r.Uint64()) {
				after := s.check(c)
				states++
				if states%10 == 0 {
					want := listing(t, after, "/d")
					if again := listing(t, s.m.Crash(c), "/d"); again != want {
						t.Fatalf("%v: %q, again %q", c, want, again)
					}
					if second := listing(t, after.Crash(CrashConfig{}), "/d"); second != want {
						t.Fatalf("%v: a second crash changed %q to %q", c, want, second)
					}
				}
			}
			for name, id := range s.now() {
				wantFile(t, s.m, "/d/"+name, string(s.files[id].now()))
			}
			if s.r.IntN(30) == 0 {
				old, was := s.m, listing(t, s.m, "/d")
				s.restart(CrashConfigs(s.r.Uint64())[s.r.IntN(24)])
				defer func() {
					if is := listing(t, old, "/d"); is != was {
						t.Errorf("the life after a crash changed the one before: %q, was %q", is, was)
					}
				}()
			}
		}
	}
	t.Logf("%d states", states)
}
