package tree

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// A bigTree is the version of a store with many tables that have no
// files. It measures what it takes in memory to install an edit.
type bigTree struct {
	tree *Tree
	next base.FileNum
	dead []Obsolete // versions without users, to be retired
	gone []string   // files that nothing needs
}

func newBigTree(tb testing.TB, n int) *bigTree {
	t := &bigTree{next: 1}
	t.tree = New(Env{Obsolete: t.obsolete, Remove: t.remove})
	if _, _, err := t.tree.Load(new(manifest.Version), Loading{}); err != nil {
		tb.Fatal(err)
	}
	e := &manifest.Edit{}
	var opened []*Table
	for i := range n {
		m := t.table(uint64(i)<<32, uint64(i)<<32|1<<31)
		e.Added = append(e.Added, manifest.Added{Level: 6, Run: 1, Table: m.Meta})
		opened = append(opened, m)
	}
	t.install(tb, e, opened)
	return t
}

// obsolete and remove stand for the deleter of a store.
func (t *bigTree) obsolete(files ...Obsolete) {
	for _, f := range files {
		if f.version != nil {
			t.dead = append(t.dead, f)
		} else {
			t.gone = append(t.gone, f.Name)
		}
	}
}

func (t *bigTree) remove() {
	for _, o := range t.dead {
		t.tree.Retire(o)
	}
	t.dead = t.dead[:0]
}

func (t *bigTree) table(from, to uint64) *Table {
	key := func(k uint64) []byte { return binary.BigEndian.AppendUint64([]byte("user"), k) }
	m := &manifest.Table{Num: t.next, Size: 16 << 20, Smallest: key(from), Largest: key(to), Entries: 2, Keys: 2, MinSeq: 1, MaxSeq: base.Seq(t.next)}
	t.next++
	return &Table{Meta: m, Reader: &sstable.Reader{}}
}

func (t *bigTree) install(tb testing.TB, e *manifest.Edit, opened []*Table, beside ...*Sidecar) {
	tb.Helper()
	c := t.tree.Begin()
	meta, err := c.Old.Meta.Apply(e)
	if err != nil {
		tb.Fatal(err)
	}
	next, removed := nextVersion(c.Old, meta, t.tree.added(e, opened))
	c.add(next, removed, opened, beside)
	c.End()
}

// A flush allocates the same, however many tables the store has: it copies no list of them.
func TestInstall_FlushOfAnyStore(t *testing.T) {
	const flushes = 100
	var bytes [2]uint64 // of each flush
	for i, n := range []uint64{1000, 50_000} {
		big := newBigTree(t, int(n))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range flushes {
			m := big.table(0, n<<32)
			big.install(t, &manifest.Edit{Added: []manifest.Added{{Level: 0, Run: uint64(m.Meta.Num), Table: m.Meta}}}, []*Table{m})
			big.install(t, &manifest.Edit{Removed: []manifest.Removed{{Level: 0, Num: m.Meta.Num, Table: m.Meta}}}, nil)
		}
		runtime.ReadMemStats(&after)
		bytes[i] = (after.TotalAlloc - before.TotalAlloc) / flushes
	}
	t.Logf("%d bytes among 1,000 tables, %d among 50,000", bytes[0], bytes[1])
	if bytes[1] > bytes[0]+2000 { // a list of all tables has 400,000
		t.Errorf("a flush and its end allocate %d bytes among 1,000 tables, and %d among 50,000", bytes[0], bytes[1])
	}
}

// TestNextVersion_IsThatFromScratch makes random edits. It
// compares the version after each, which shares what it can with
// the previous one, with a version made only from the manifest's.
func TestNextVersion_IsThatFromScratch(t *testing.T) {
	seed := testenv.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	big := newBigTree(t, 40)
	shared := 0
	for range 300 {
		before := big.tree.version
		e, opened := big.randomEdit(rng)
		big.install(t, e, opened)
		v := big.tree.version
		checkVersion(t, big.tree, v)
		for _, r := range v.Runs {
			if slices.Contains(before.Runs, r) {
				shared++
			}
		}
	}
	if shared == 0 {
		t.Error("no run was shared by two versions")
	}
	t.Logf("%d tables in the end, %d runs shared", big.tree.version.Meta.NumTables(), shared)
}

// randomEdit replaces, adds, removes or moves tables of the levels 5 and 6, or
// adds or removes a run of level 0.
func (t *bigTree) randomEdit(rng *rand.Rand) (e *manifest.Edit, opened []*Table) {
	e = &manifest.Edit{}
	add := func(level int, run uint64, m *Table) {
		e.Added = append(e.Added, manifest.Added{Level: level, Run: run, Table: m.Meta})
		opened = append(opened, m)
	}
	levels := &t.tree.version.Meta.Levels
	switch runs := levels[0].Runs; {
	case rng.IntN(4) == 0:
		m := t.table(rng.Uint64N(40)<<32, 41<<32)
		add(0, uint64(m.Meta.Num), m)
		return e, opened
	case len(runs) > 0 && rng.IntN(4) == 0:
		e.Removed = append(e.Removed, manifest.Removed{Level: 0, Num: runs[rng.IntN(len(runs))].Tables[0].Num})
		return e, nil
	}
	taken := make(map[uint64]bool) // places of level 6
	for _, r := range levels[6].Runs {
		for _, m := range r.Tables {
			at := binary.BigEndian.Uint64(m.Smallest[4:]) >> 32
			taken[at] = true
			if rng.IntN(8) == 0 {
				e.Removed = append(e.Removed, manifest.Removed{Level: 6, Num: m.Num})
				taken[at] = false
			}
		}
	}
	for _, r := range levels[5].Runs {
		for _, m := range r.Tables {
			if at := binary.BigEndian.Uint64(m.Smallest[4:]) >> 32; !taken[at] && rng.IntN(2) == 0 {
				taken[at] = true
				e.Removed = append(e.Removed, manifest.Removed{Level: 5, Num: m.Num})
				e.Added = append(e.Added, manifest.Added{Level: 6, Run: 1, Table: m})
			}
		}
	}
	for at := range uint64(40) {
		if !taken[at] && rng.IntN(4) == 0 {
			add(6, 1, t.table(at<<32|rng.Uint64N(100), at<<32|1<<31))
		}
	}
	if len(levels[5].Runs) == 0 {
		for at := range uint64(40) {
			if rng.IntN(3) == 0 {
				add(5, 2, t.table(at<<32|rng.Uint64N(100), at<<32|1<<31))
			}
		}
	}
	return e, opened
}

func checkVersion(t *testing.T, tree *Tree, v *Version) {
	t.Helper()
	all := make(map[base.FileNum]*Table)
	for m := range v.Tables() {
		all[m.Meta.Num] = m
		if tree.tables[m.Meta.Num] != m || m.born > v.num {
			t.Fatalf("table %d: the store has %p of %p, born with version %d of %d", m.Meta.Num, tree.tables[m.Meta.Num], m, m.born, v.num)
		}
	}
	if len(all) != v.Meta.NumTables() || len(tree.tables) != len(all) {
		t.Fatalf("%d tables, %d in the store, want %d", len(all), len(tree.tables), v.Meta.NumTables())
	}
	want := newVersion(v.Meta, all)
	if len(v.Runs) != len(want.Runs) {
		t.Fatalf("%d runs, want %d", len(v.Runs), len(want.Runs))
	}
	for i, w := range want.Runs {
		r := v.Runs[i]
		if r.Level != w.Level || r.Nth != w.Nth || r.id != w.id || r.Keys != w.Keys || string(r.bounds.Prefix) != string(w.bounds.Prefix) ||
			!slices.Equal(r.Tables, w.Tables) || !slices.Equal(r.metas, w.metas) ||
			!slices.Equal(r.bounds.Largest, w.bounds.Largest) || !slices.Equal(r.bounds.Smallest, w.bounds.Smallest) {
			t.Fatalf("run %d of level %d, %d tables, is not that of level %d, %d tables, made anew", i, r.Level, len(r.Tables), w.Level, len(w.Tables))
		}
	}
}
