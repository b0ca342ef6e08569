package vfs

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// listing returns the files of a directory and their contents, as `a=x b=y`.
func listing(t *testing.T, fs FS, dir string) string {
	t.Helper()
	names, err := fs.List(dir)
	must(t, err)
	var all []string
	for _, name := range names {
		data := readFile(t, fs, dir+"/"+name)
		if len(data) > 20 {
			data = fmt.Sprintf("%.5s…%d", data, len(data))
		}
		all = append(all, name+"="+data)
	}
	return strings.Join(all, " ")
}

// outcomes returns the possible contents of dir after a crash, over many seeds, sorted.
func outcomes(t *testing.T, m *Mem, dir string, c CrashConfig) []string {
	t.Helper()
	seen := make(map[string]bool)
	for c.Seed = range uint64(200) {
		seen[listing(t, m.Crash(c), dir)] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// Each life ends in a crash. The outcomes listed are all that exist.
func TestCrash_Names(t *testing.T) {
	durable := func(t *testing.T, m *Mem, name string) { // a synced file with its name
		must(t, create(t, m, "/d/"+name, strings.ToUpper(name)).Sync())
		must(t, m.SyncDir("/d"))
	}
	tests := []struct {
		name string
		life func(t *testing.T, m *Mem)
		want map[NamePolicy][]string
	}{
		{"create", func(t *testing.T, m *Mem) {
			must(t, create(t, m, "/d/a", "A").Sync())
		}, map[NamePolicy][]string{
			NamesDrop: {""}, NamesKeep: {"a=A"}, NamesPrefix: {"", "a=A"}, NamesSubset: {"", "a=A"},
		}},
		{"create and SyncDir", func(t *testing.T, m *Mem) { durable(t, m, "a") },
			map[NamePolicy][]string{NamesDrop: {"a=A"}, NamesSubset: {"a=A"}}},
		{"two creations", func(t *testing.T, m *Mem) {
			must(t, create(t, m, "/d/a", "A").Sync())
			must(t, create(t, m, "/d/b", "B").Sync())
		}, map[NamePolicy][]string{
			NamesPrefix: {"", "a=A", "a=A b=B"}, NamesSubset: {"", "a=A", "a=A b=B", "b=B"},
		}},
		{"rename over a file", func(t *testing.T, m *Mem) {
			durable(t, m, "a")
			durable(t, m, "b")
			must(t, m.Rename("/d/b", "/d/a"))
		}, map[NamePolicy][]string{
			NamesDrop: {"a=A b=B"}, NamesKeep: {"a=B"}, NamesSubset: {"a=A b=B", "a=B"},
		}},
		{"rename of a new file", func(t *testing.T, m *Mem) {
			durable(t, m, "a")
			must(t, create(t, m, "/d/tmp", "T").Sync())
			must(t, m.Rename("/d/tmp", "/d/a"))
		}, map[NamePolicy][]string{
			NamesDrop: {"a=A"}, NamesPrefix: {"a=A", "a=A tmp=T", "a=T"}, NamesSubset: {"a=A", "a=A tmp=T", "a=T"},
		}},
		{"remove", func(t *testing.T, m *Mem) {
			durable(t, m, "a")
			must(t, m.Remove("/d/a"))
		}, map[NamePolicy][]string{NamesDrop: {"a=A"}, NamesKeep: {""}, NamesSubset: {"", "a=A"}}},
		{"remove and create again", func(t *testing.T, m *Mem) {
			durable(t, m, "a")
			must(t, m.Remove("/d/a"))
			must(t, create(t, m, "/d/a", "new").Sync())
		}, map[NamePolicy][]string{NamesDrop: {"a=A"}, NamesSubset: {"", "a=A", "a=new"}}},
		{"link", func(t *testing.T, m *Mem) {
			durable(t, m, "a")
			must(t, m.Link("/d/a", "/d/b"))
		}, map[NamePolicy][]string{NamesDrop: {"a=A"}, NamesSubset: {"a=A", "a=A b=A"}}},
		{"rename from elsewhere", func(t *testing.T, m *Mem) {
			must(t, create(t, m, "/e/x", "X").Sync())
			must(t, m.SyncDir("/e"))
			must(t, m.Rename("/e/x", "/d/x"))
			must(t, m.SyncDir("/e")) // either directory will do
		}, map[NamePolicy][]string{NamesDrop: {"x=X"}, NamesSubset: {"x=X"}}},
		{"SyncDir of another directory", func(t *testing.T, m *Mem) {
			must(t, create(t, m, "/d/a", "A").Sync())
			must(t, m.SyncDir("/e"))
		}, map[NamePolicy][]string{NamesDrop: {""}}},
		{"SyncDir elsewhere takes what it builds on", func(t *testing.T, m *Mem) {
			must(t, create(t, m, "/d/a", "A").Sync())
			must(t, create(t, m, "/d/b", "B").Sync())
			must(t, m.Rename("/d/a", "/e/a"))
			must(t, m.SyncDir("/e"))
		}, map[NamePolicy][]string{NamesDrop: {""}, NamesSubset: {"", "b=B"}}},
	}
	for _, tt := range tests {
		m := newMemWithDir(t, "/d")
		must(t, m.MkdirAll("/e"))
		tt.life(t, m)
		for names, want := range tt.want {
			if got := outcomes(t, m, "/d", CrashConfig{Names: names}); !slices.Equal(got, want) {
				t.Errorf("%s, %v: %q, want %q", tt.name, names, got, want)
			}
		}
	}
}

// With a journal any sync of a file keeps the changes of names before it.
func TestCrash_Journal(t *testing.T) {
	m := newMemWithDir(t, "/d")
	create(t, m, "/d/a", "A")
	b := create(t, m, "/d/b", "B")
	must(t, b.Sync())
	must(t, m.Rename("/d/a", "/d/c"))
	must(t, b.Sync()) // has nothing to do, so the journal stays as it is
	for _, tt := range []struct {
		c    CrashConfig
		want string
	}{
		{CrashConfig{}, ""},
		{CrashConfig{Journal: true}, "a= b=B"},
		{CrashConfig{Journal: true, Names: NamesKeep}, "b=B c="},
		{CrashConfig{Journal: true, Policy: KeepAll}, "a=A b=B"},
	} {
		if got := listing(t, m.Crash(tt.c), "/d"); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.c, got, tt.want)
		}
	}
}

// One file: "old" is synced, then it is changed.
func TestCrash_Data(t *testing.T) {
	life := func(change func(f File)) *Mem {
		m := newMemWithDir(t, "/d")
		f := create(t, m, "/d/a", strings.Repeat("o", 600))
		must(t, f.Sync())
		must(t, m.SyncDir("/d"))
		change(f)
		return m
	}
	o := func(n int) string { return strings.Repeat("o", n) }
	n := func(n int) string { return strings.Repeat("n", n) }
	z := func(n int) string { return strings.Repeat("\x00", n) }
	over := life(func(f File) { // two sectors, the second of them cut
		_, err := f.WriteAt([]byte(n(600)), 0)
		must(t, err)
	})
	grow := life(func(f File) {
		_, err := f.Write([]byte(n(10)))
		must(t, err)
	})
	cut := life(func(f File) { must(t, f.Truncate(10)) })
	tests := []struct {
		what string
		m    *Mem
		p    CrashPolicy
		want []string // nil: only prefixes of the file are told, in some
		some string
	}{
		{"overwrite", over, DropAll, []string{o(600)}, ""},
		{"overwrite", over, KeepAll, []string{n(600)}, ""},
		{"overwrite", over, Sectors, []string{o(600), n(512) + o(88), o(512) + n(88), n(600)}, ""},
		{"overwrite", over, GrownZeros, []string{o(600)}, ""},
		{"overwrite", over, OrderedPrefix, nil, n(512) + o(88)},
		{"growth", grow, DropAll, []string{o(600)}, ""},
		{"growth", grow, KeepAll, []string{o(600) + n(10)}, ""},
		{"growth", grow, GrownZeros, []string{o(600) + z(10)}, ""},
		{"growth", grow, Sectors, []string{o(600), o(600) + z(10), o(600) + n(10)}, ""},
		{"growth", grow, OrderedPrefix, nil, o(600) + n(7)},
		{"cut", cut, DropAll, []string{o(600)}, ""},
		{"cut", cut, KeepAll, []string{o(10)}, ""},
		{"cut", cut, OrderedPrefix, []string{o(600), o(10)}, ""},
	}
	for _, tt := range tests {
		seen := make(map[string]bool)
		for seed := range uint64(500) {
			seen[readFile(t, tt.m.Crash(CrashConfig{Policy: tt.p, Seed: seed}), "/d/a")] = true
		}
		if tt.want == nil {
			if !seen[tt.some] {
				t.Errorf("%s, %v: never as far as %d bytes of it", tt.what, tt.p, strings.Count(tt.some, "n"))
			}
			continue
		}
		got, want := slices.Sorted(maps.Keys(seen)), slices.Sorted(slices.Values(tt.want))
		if !slices.Equal(got, want) {
			t.Errorf("%s, %v: %d outcomes %.20q, want %d %.20q", tt.what, tt.p, len(got), got, len(want), want)
		}
	}
	for seed := range uint64(10) {
		got := readFile(t, grow.Crash(CrashConfig{Policy: GrownGarbage, Seed: seed}), "/d/a")
		if len(got) != 610 || !strings.HasPrefix(got, o(600)) || strings.HasSuffix(got, z(10)) {
			t.Errorf("growth, GrownGarbage, seed %d: %d bytes, ends in %q", seed, len(got), got[600:])
		}
	}
}

// After a number of changes they are merged. Nothing may get lost by that.
func TestCrash_MergedChanges(t *testing.T) {
	m := newMemWithDir(t, "/d")
	f := create(t, m, "/d/a", "")
	must(t, f.Sync())
	must(t, m.SyncDir("/d"))
	var want []byte
	for i := range 3 * mergeAfter {
		p := []byte{byte(i), byte(i >> 8), 1}
		want = append(want, p...)
		_, err := f.Write(p)
		must(t, err)
	}
	if n := len(f.(*memFile).n.undo); n > mergeAfter+1 {
		t.Errorf("%d changes remembered, want at most %d", n, mergeAfter+1)
	}
	wantFile(t, m.Crash(CrashConfig{}), "/d/a", "")
	long := 0
	for seed := range uint64(300) {
		got := []byte(readFile(t, m.Crash(CrashConfig{Policy: OrderedPrefix, Seed: seed}), "/d/a"))
		if !bytes.HasPrefix(want, got) {
			t.Fatalf("seed %d: %d bytes that are no prefix of what was written", seed, len(got))
		}
		long = max(long, len(got))
	}
	if long < len(want)/4 {
		t.Errorf("the longest of 300 prefixes has %d bytes of %d", long, len(want))
	}
}

// Data that a failed sync did not write is lost, whatever
// a later sync returns, unless it is written again.
func TestCrash_FailedSync(t *testing.T) {
	m := newMemWithDir(t, "/d")
	f := create(t, m, "/d/a", strings.Repeat("a", 1024))
	must(t, f.Sync())
	must(t, m.SyncDir("/d"))
	_, err := f.Write([]byte(strings.Repeat("b", 1024)))
	must(t, err)
	f.(*memFile).LoseUnsynced()
	_, err = f.WriteAt([]byte("c"), 512) // into a synced sector
	must(t, err)
	_, err = f.WriteAt([]byte("c"), 1024) // writes a lost sector again
	must(t, err)
	sectors := func(s string) string {
		var all []byte
		for _, c := range s {
			all = append(all, bytes.Repeat([]byte{byte(c)}, sectorSize)...)
		}
		return string(all)
	}
	now := []byte(sectors("aabb"))
	now[512], now[1024] = 'c', 'c'
	wantFile(t, m, "/d/a", string(now)) // readers see what was written
	wantFile(t, m.Crash(CrashConfig{}), "/d/a", sectors("aa\x00\x00"))
	disk := []byte(sectors("aab\x00"))
	disk[512], disk[1024] = 'c', 'c'
	wantFile(t, m.Crash(CrashConfig{Policy: KeepAll}), "/d/a", string(disk))
	for _, p := range []CrashPolicy{Sectors, OrderedPrefix} {
		for seed := range uint64(20) {
			got := readFile(t, m.Crash(CrashConfig{Policy: p, Seed: seed}), "/d/a")
			if got[1536:] != sectors("\x00") || got[:512] != sectors("a") {
				t.Errorf("%v, seed %d: a sector that nobody wrote has changed", p, seed)
			}
		}
	}
	must(t, f.Sync())
	wantFile(t, m.Crash(CrashConfig{}), "/d/a", string(disk))
	must(t, f.Truncate(100))
	wantFile(t, m.Crash(CrashConfig{}), "/d/a", string(disk))
	must(t, f.Truncate(600)) // the cut bytes must not come back
	must(t, f.Sync())
	wantFile(t, m.Crash(CrashConfig{}), "/d/a", strings.Repeat("a", 100)+strings.Repeat("\x00", 500))
}

// OnOp's function is called before every operation, so
// a crash in it finds the state between two operations.
func TestMem_OnOp(t *testing.T) {
	m := newMemWithDir(t, "/d")
	var ops, states []string
	before := m.Ops()
	m.OnOp(func(op Op, name string) {
		ops = append(ops, op.String()+" "+name)
		states = append(states, listing(t, m.Crash(CrashConfig{Policy: KeepAll, Names: NamesKeep}), "/d"))
	})
	f := create(t, m, "/d/a", "A")
	must(t, f.Sync())
	must(t, f.Preallocate(2))
	mapping, err := f.(Mapper).Map(2)
	must(t, err)
	_, err = mapping.WriteAt([]byte("B"), 1)
	must(t, err)
	must(t, m.Rename("/d/a", "/d/b"))
	must(t, m.SyncDir("/d"))
	m.OnOp(nil)
	must(t, m.Remove("/d/b"))
	wantOps := []string{"create /d/a", "write /d/a", "sync /d/a", "preallocate /d/a",
		"write to mapping /d/a", "rename /d/b", "sync directory /d"}
	if !slices.Equal(ops, wantOps) {
		t.Errorf("operations %q, want %q", ops, wantOps)
	}
	wantStates := []string{"", "a=", "a=A", "a=A", "a=A\x00", "a=AB", "b=AB"}
	if !slices.Equal(states, wantStates) {
		t.Errorf("states %q, want %q", states, wantStates)
	}
	if got, want := m.Ops()-before, int64(len(wantOps)+1); got != want {
		t.Errorf("Ops() grew by %d, want %d", got, want)
	}
}
