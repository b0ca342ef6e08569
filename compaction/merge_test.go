package compaction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
)

// A sliceIter walks a slice and then fails with err, if that is not nil. It
// reuses its buffers, as the contract of Iterator allows.
type sliceIter struct {
	entries []base.KV
	err     error
	pos     int
	kv      base.KV
	closed  bool
}

func (it *sliceIter) at(i int) *base.KV {
	it.pos = i
	clear(it.kv.UserKey)
	clear(it.kv.Value)
	if i >= len(it.entries) {
		return nil
	}
	it.kv.UserKey = append(it.kv.UserKey[:0], it.entries[i].UserKey...)
	it.kv.Value = append(it.kv.Value[:0], it.entries[i].Value...)
	it.kv.Trailer = it.entries[i].Trailer
	return &it.kv
}

func (it *sliceIter) First() *base.KV { return it.at(0) }
func (it *sliceIter) Next() *base.KV  { return it.at(it.pos + 1) }
func (it *sliceIter) SeekGE(key []byte, seq base.Seq) *base.KV {
	i, _ := slices.BinarySearchFunc(it.entries, base.NewKey(key, seq, base.KindMax), func(kv base.KV, k base.InternalKey) int {
		return base.Compare(kv.InternalKey, k)
	})
	return it.at(i)
}
func (it *sliceIter) Last() *base.KV         { panic("not used") }
func (it *sliceIter) Prev() *base.KV         { panic("not used") }
func (it *sliceIter) SeekLT([]byte) *base.KV { panic("not used") }
func (it *sliceIter) Close() error           { it.closed = true; return nil }
func (it *sliceIter) Err() error {
	if it.pos >= len(it.entries) {
		return it.err
	}
	return nil
}

// outputs collects the tables of a merge. An entry counts for 10 bytes.
type outputs struct {
	tables   [][]base.KV
	open     int
	finished int
	addErr   error // of the addAt-th Add
	addAt    int
	adds     int
	newErr   error
	finErr   error
}

type memOutput struct {
	to *outputs
	kv []base.KV
}

func (o *outputs) new() (Output, error) {
	if o.newErr != nil {
		return nil, o.newErr
	}
	o.open++
	return &memOutput{to: o}, nil
}

func (m *memOutput) Add(k base.InternalKey, value []byte) error {
	m.to.adds++
	if m.to.addErr != nil && m.to.adds == m.to.addAt {
		return m.to.addErr
	}
	m.kv = append(m.kv, base.KV{InternalKey: base.InternalKey{UserKey: bytes.Clone(k.UserKey), Trailer: k.Trailer}, Value: bytes.Clone(value)})
	return nil
}
func (m *memOutput) EstimatedSize() int64 { return int64(len(m.kv)) * 10 }
func (m *memOutput) Finish() error {
	m.to.open--
	m.to.finished++
	m.to.tables = append(m.to.tables, m.kv)
	return m.to.finErr
}
func (m *memOutput) Abandon() { m.to.open-- }

func parseEntries(t testing.TB, text string) []base.KV {
	t.Helper()
	var entries []base.KV
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		k, err := base.ParseKey(key)
		if err != nil {
			t.Fatal(err)
		}
		kv := base.KV{InternalKey: k, Value: []byte(value)}
		if k.Kind() == base.KindExpiring {
			at, value, _ := strings.Cut(value, ":")
			ms, err := strconv.ParseInt(at, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			kv.Value = base.AppendExpiring(nil, ms, []byte(value))
		}
		entries = append(entries, kv)
	}
	return entries
}

// parseTables makes a table for each "a-c" of args, of size 100.
func parseTables(args []string) []*manifest.Table {
	var tables []*manifest.Table
	for i, arg := range args {
		lo, hi, _ := strings.Cut(arg, "-")
		tables = append(tables, &manifest.Table{Num: base.FileNum(i + 1), Size: 100, Smallest: []byte(lo), Largest: []byte(hi)})
	}
	return tables
}

func TestMerge(t *testing.T) {
	datadriven.RunTest(t, "testdata/merge", func(t *testing.T, d *datadriven.TestData) string {
		var out outputs
		o := MergeOptions{NewOutput: out.new}
		for _, a := range d.CmdArgs {
			switch a.Key {
			case "snapshots":
				for _, v := range a.Vals {
					var seq uint64
					fmt.Sscan(v, &seq)
					o.Snapshots = append(o.Snapshots, base.Seq(seq))
				}
			case "now":
				a.Scan(t, 0, &o.Now)
			case "times":
				for _, v := range a.Vals {
					var ms int64
					fmt.Sscan(v, &ms)
					o.Times = append(o.Times, ms)
				}
			case "bottom":
				o.Older.known = true
			case "older":
				o.Older = Older{known: true, runs: append(o.Older.runs, parseTables(a.Vals))}
			case "grandparents":
				o.Grandparents = parseTables(a.Vals)
			case "table":
				a.Scan(t, 0, &o.TableSize)
			case "lower":
				o.Lower = []byte(a.Vals[0])
			case "upper":
				o.Upper = []byte(a.Vals[0])
			}
		}
		r, err := Merge(context.Background(), &sliceIter{entries: parseEntries(t, d.Input)}, o)
		var b strings.Builder
		for i, table := range out.tables {
			if i > 0 {
				b.WriteString("--\n")
			}
			for _, kv := range table {
				fmt.Fprintf(&b, "%s", kv.InternalKey)
				switch kv.Kind() {
				case base.KindPut:
					fmt.Fprintf(&b, "=%s", kv.Value)
				case base.KindExpiring:
					ms, value := base.CutExpiry(kv.Value)
					fmt.Fprintf(&b, "=%d:%s", ms, value)
				}
				b.WriteByte('\n')
			}
		}
		fmt.Fprintf(&b, "in %d, out %d, shadowed %d, tombstones %d", r.in, r.out, r.shadowed, r.tombstones)
		if o.Now > 0 {
			fmt.Fprintf(&b, ", expired %d, clock %d", r.expired, r.Clock())
		}
		b.WriteByte('\n')
		if err != nil {
			fmt.Fprintln(&b, "error:", err)
		}
		return b.String()
	})
}

// get reads key at seq from sorted entries.
func get(entries []base.KV, key string, seq base.Seq) (value string, kind base.Kind, ok bool) {
	for _, kv := range entries {
		if string(kv.UserKey) == key && kv.Seq() <= seq {
			return string(kv.Value), kv.Kind(), true
		}
	}
	return "", 0, false
}

// TestMerge_NobodyCanTell merges random entries under random snapshots over
// random older data, whole and in sub-ranges, and reads every key at every
// sequence number that a reader may have.
func TestMerge_NobodyCanTell(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	for range 2000 {
		keys := []string{"a", "a\x00", "b", "bb", "c", "d", "e", "f"}
		var entries []base.KV
		var maxSeq base.Seq
		for _, key := range keys {
			seq := base.Seq(10 + r.IntN(20))
			for range r.IntN(5) {
				kind := base.KindPut
				if r.IntN(2) == 0 {
					kind = base.KindDelete
				}
				entries = append(entries, base.KV{InternalKey: base.NewKey([]byte(key), seq, kind), Value: fmt.Appendf(nil, "%s%d", key, seq)})
				maxSeq = max(maxSeq, seq)
				seq -= base.Seq(1 + r.IntN(3))
			}
		}
		var snapshots []base.Seq
		for range r.IntN(4) {
			snapshots = append(snapshots, base.Seq(r.IntN(32)))
		}
		slices.Sort(snapshots)
		snapshots = slices.Compact(snapshots)
		lo := r.IntN(len(keys))
		hi := lo + r.IntN(len(keys)-lo)
		older := Older{known: r.IntN(4) > 0}
		if r.IntN(3) > 0 && older.known {
			older.runs = [][]*manifest.Table{parseTables([]string{keys[lo] + "-" + keys[hi]})}
		}
		inOlder := func(key string) bool { return !older.known || older.runs != nil && key >= keys[lo] && key <= keys[hi] }

		var merged []base.KV
		var total MergeResult
		bounds := [][]byte{nil, nil}
		if cut := keys[r.IntN(len(keys))]; r.IntN(2) == 0 {
			bounds = [][]byte{nil, []byte(cut), nil}
		}
		for i := range len(bounds) - 1 {
			var out outputs
			res, err := Merge(context.Background(), &sliceIter{entries: entries}, MergeOptions{
				Snapshots: snapshots, Older: older, TableSize: int64(10 * (1 + r.IntN(5))),
				Grandparents: parseTables([]string{"a-b", "bb-c", "e-e"}),
				Lower:        bounds[i], Upper: bounds[i+1], NewOutput: out.new,
			})
			if err != nil {
				t.Fatal(err)
			}
			total.in += res.in
			for j, table := range out.tables {
				if j > 0 && bytes.Equal(table[0].UserKey, merged[len(merged)-1].UserKey) {
					t.Fatalf("key %q is in two tables", table[0].UserKey)
				}
				merged = append(merged, table...)
			}
			if out.open != 0 {
				t.Fatalf("%d outputs left open, %d tables, result %+v", out.open, len(out.tables), res)
			}
		}
		if total.in != uint64(len(entries)) {
			t.Fatalf("%d entries read, there are %d", total.in, len(entries))
		}
		if !slices.IsSortedFunc(merged, func(a, b base.KV) int { return base.Compare(a.InternalKey, b.InternalKey) }) {
			t.Fatalf("output is not sorted: %v", merged)
		}
		for _, key := range keys {
			for _, seq := range append(slices.Clone(snapshots), maxSeq, base.MaxSeq) {
				value, kind, ok := get(entries, key, seq)
				gotValue, gotKind, gotOK := get(merged, key, seq)
				// A tombstone hides older entries. If there
				// are none, it means the same as no entry.
				if kind == base.KindDelete && !inOlder(key) {
					ok = false
				}
				if gotKind == base.KindDelete && !inOlder(key) {
					gotOK = false
				}
				if ok != gotOK || ok && (kind != gotKind || kind == base.KindPut && value != gotValue) {
					t.Fatalf("%q at %d is %q %v %v, was %q %v %v\nsnapshots %v, older %v\nin  %v\nout %v",
						key, seq, gotValue, gotKind, gotOK, value, kind, ok, snapshots, older, entries, merged)
				}
			}
		}
	}
}

var errDisk = errors.New("disk on fire")

// TestMerge_ErrorIsNotAnEnd makes the source fail after each entry.
// The entries after the failure must not be taken for absent.
func TestMerge_ErrorIsNotAnEnd(t *testing.T) {
	entries := parseEntries(t, "a#3,PUT=1\nb#2,PUT=2\nc#1,PUT=3\n")
	for n := range len(entries) + 1 {
		var out outputs
		_, err := Merge(context.Background(), &sliceIter{entries: entries[:n], err: errDisk}, MergeOptions{NewOutput: out.new, TableSize: 10})
		if !errors.Is(err, errDisk) || out.open != 0 {
			t.Errorf("source fails after %d entries: %v, %d outputs left open; want %v, 0", n, err, out.open, errDisk)
		}
	}
}

func TestMerge_FailingOutputs(t *testing.T) {
	entries := parseEntries(t, "a#3,PUT=1\nb#2,PUT=2\nc#1,PUT=3\n")
	for name, out := range map[string]*outputs{
		"new":        {newErr: errDisk},
		"first add":  {addErr: errDisk, addAt: 1},
		"second add": {addErr: errDisk, addAt: 2},
		"finish":     {finErr: errDisk},
	} {
		src := &sliceIter{entries: entries}
		_, err := Merge(context.Background(), src, MergeOptions{NewOutput: out.new, TableSize: 10})
		if !errors.Is(err, errDisk) || out.open != 0 {
			t.Errorf("%s fails: %v, %d outputs left open; want %v, 0", name, err, out.open, errDisk)
		}
		if src.closed {
			t.Errorf("%s fails: the source was closed, which is the caller's to do", name)
		}
	}
}

func TestMerge_Cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out outputs
	_, err := Merge(ctx, &sliceIter{entries: parseEntries(t, "a#3,PUT=1\n")}, MergeOptions{NewOutput: out.new})
	if !errors.Is(err, context.Canceled) || out.adds != 0 || out.open != 0 {
		t.Errorf("Merge = %v, %d entries written, %d outputs open; want %v, 0, 0", err, out.adds, out.open, context.Canceled)
	}
}

// On one processor, another goroutine gets its turns during a long merge.
func TestMerge_Yields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const pauses = 100
	entries := make([]base.KV, pauses*pauseEvery)
	for i := range entries {
		entries[i].InternalKey = base.NewKey(fmt.Appendf(nil, "%09d", i), 1, base.KindPut)
	}
	var turns atomic.Int64
	var stop atomic.Bool
	go func() {
		for ; !stop.Load(); turns.Add(1) {
			runtime.Gosched()
		}
	}()
	_, err := Merge(context.Background(), &sliceIter{entries: entries}, MergeOptions{NewOutput: func() (Output, error) { return nullOutput{}, nil }})
	stop.Store(true)
	if n := turns.Load(); err != nil || n < pauses/2 {
		t.Errorf("Merge of %d entries: %v, another goroutine had %d turns, want %d at least", len(entries), err, n, pauses/2)
	}
}

func TestCheckMerged_MissesEntries(t *testing.T) {
	p := &Plan{Inputs: []Input{{Tables: []*manifest.Table{{Entries: 10}, {Entries: 5}}}}}
	if err := p.CheckMerged(MergeResult{in: 9}, MergeResult{in: 6}); err != nil {
		t.Errorf("CheckMerged of all entries: %v", err)
	}
	if err := p.CheckMerged(MergeResult{in: 9}, MergeResult{in: 5}); err == nil {
		t.Error("CheckMerged accepts 14 of 15 entries")
	}
}

func TestSplitRanges(t *testing.T) {
	v, err := manifest.ParseVersion(`
L0.9: 000009:[a-z]{size=400}
L6: 000001:[a-c]{size=400} 000002:[d-f]{size=400} 000003:[g-i]{size=400} 000004:[j-l]{size=400} 000005:[m-z]{size=400}
`)
	if err != nil {
		t.Fatal(err)
	}
	p := Pick(v, Options{Level0Trigger: 1, TableSize: 100, BaseBytes: 2500}, InFlight{})
	for _, c := range []struct {
		n    int
		want string
	}{{0, "[]"}, {1, "[]"}, {2, `["j"]`}, {3, `["g" "m"]`}, {4, `["d" "j" "m"]`}, {100, `["d" "g" "j" "m"]`}} {
		if got := fmt.Sprintf("%q", SplitRanges(&p, c.n)); got != c.want {
			t.Errorf("SplitRanges(%d) of\n%s\n= %s, want %s", c.n, &p, got, c.want)
		}
	}
	small := p
	small.tableSize = 800 // 2400 bytes are worth one range
	if got := SplitRanges(&small, 4); len(got) != 0 {
		t.Errorf("SplitRanges of three tables' worth = %q, want no cut", got)
	}
}

// TestSplitRanges_ManyTables cuts plans of random tables where sums over all of their tables say, and
// one of 40,000 tables in a moment: the caller holds the lock of the scheduler. It took seconds.
func TestSplitRanges_ManyTables(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	plan := func(tables int) *Plan {
		p := new(Plan)
		for run := range 3 {
			in := Input{run: uint64(run)}
			at := r.IntN(10)
			for range tables / 3 {
				first := at + r.IntN(3)
				last := first + r.IntN(5)
				at = last + 1
				in.Tables = append(in.Tables, &manifest.Table{Size: 1 + r.Int64N(1000), Smallest: fmt.Appendf(nil, "%08d", first), Largest: fmt.Appendf(nil, "%08d", last)})
			}
			p.widen(in.Tables...)
			p.Inputs = append(p.Inputs, in)
		}
		return p
	}
	below := func(p *Plan, key []byte) (sum int64) {
		for _, in := range p.Inputs {
			for _, t := range in.Tables {
				switch {
				case bytes.Compare(t.Largest, key) < 0:
					sum += t.Size
				case bytes.Compare(t.Smallest, key) < 0:
					sum += t.Size / 2
				}
			}
		}
		return sum
	}
	for range 200 {
		p, n := plan(3+r.IntN(60)), 2+r.IntN(8)
		cuts := SplitRanges(p, n)
		share := p.InputBytes() / int64(n)
		for i, cut := range cuts {
			if got := below(p, cut); got < share*int64(i+1) {
				t.Fatalf("cut %d of %d is at %q, with %d bytes below it, want %d or more:\n%s", i, len(cuts), cut, got, share*int64(i+1), p)
			}
			for _, in := range p.Inputs { // no earlier place is possible, unless the cut before is there
				for _, table := range in.Tables {
					if key := table.Smallest; bytes.Compare(key, p.smallest) > 0 && bytes.Compare(key, cut) < 0 &&
						(i == 0 || bytes.Compare(key, cuts[i-1]) > 0) && below(p, key) >= share*int64(i+1) {
						t.Fatalf("cut %d of %d is at %q, could be at %q:\n%s", i, len(cuts), cut, key, p)
					}
				}
			}
		}
	}
	large := plan(40_000)
	begin := testenv.CPUTime()
	if cuts := SplitRanges(large, 16); len(cuts) != 15 {
		t.Errorf("%d cuts, want 15", len(cuts))
	}
	took := testenv.CPUTime() - begin
	t.Logf("40,000 tables took %v", took)
	if took > time.Second {
		t.Errorf("SplitRanges of 40,000 tables took %v", took)
	}
}

type nullOutput struct{}

func (nullOutput) Add(base.InternalKey, []byte) error { return nil }
func (nullOutput) EstimatedSize() int64               { return 0 }
func (nullOutput) Finish() error                      { return nil }
func (nullOutput) Abandon()                           {}
