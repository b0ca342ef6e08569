package repair

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// batchAt encodes a batch of n changes, the first with number seq.
func batchAt(seq, n int) []byte {
	b := binary.AppendUvarint(nil, uint64(seq))
	b = binary.AppendUvarint(b, uint64(n))
	for i := range n {
		b = append(b, byte(base.KindPut), 1, 'a'+byte(i%26), 1, 'v')
	}
	return b
}

// A testLog is a log with one commit for each number from first to last. broken are
// numbers whose records are damaged.
type testLog struct {
	num, prev, first, last int
	broken                 []int
	unsealed               bool
}

func writeLogs(t *testing.T, mem *vfs.Mem, list []testLog) (nums []base.FileNum) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(mem.MkdirAll("db"))
	lengths := make(map[int]int64)
	for _, l := range list {
		w, err := wal.Create(wal.Header{
			Num: base.FileNum(l.num), StoreID: 1, Prev: base.FileNum(l.prev), PrevLen: lengths[l.prev], PrevSeq: base.Seq(l.first - 1),
		}, wal.Options{FS: mem, Dir: "db"})
		must(err)
		var damage []int64
		for seq := l.first; seq <= l.last; seq++ {
			_, err := w.Append(batchAt(seq, 1), base.Seq(seq))
			must(err)
			must(w.Sync())
			if slices.Contains(l.broken, seq) {
				damage = append(damage, w.Len()-1)
			}
		}
		if lengths[l.num] = w.Len(); !l.unsealed {
			lengths[l.num], err = w.Seal()
			must(err)
		}
		must(w.Close())
		for _, at := range damage {
			f, err := mem.OpenReadWrite("db/" + base.LogName(base.FileNum(l.num)))
			must(err)
			_, err = f.WriteAt([]byte{0xee}, at)
			must(err)
			must(f.Close())
		}
		nums = append(nums, base.FileNum(l.num))
	}
	return nums
}

// numbers writes stretches as 3-5 9-9.
func numbers(items []item) string {
	var s []string
	for _, it := range items {
		s = append(s, fmt.Sprintf("%d-%d", it.stretch.first, it.stretch.last))
	}
	return strings.Join(s, " ")
}

func TestJudge(t *testing.T) {
	state := func(minLog, next int, announced ...int) *manifest.State {
		s := &manifest.State{Version: &manifest.Version{}, StoreID: 1, MinLog: base.FileNum(minLog), NextFileNum: base.FileNum(next)}
		for _, n := range announced {
			s.Logs = append(s.Logs, manifest.LogInfo{Num: base.FileNum(n)})
		}
		return s
	}
	three := []testLog{{num: 2, first: 1, last: 4}, {num: 4, prev: 2, first: 5, last: 8}, {num: 6, prev: 4, first: 9, last: 12, unsealed: true}}
	with := func(i int, change func(l *testLog)) []testLog {
		list := slices.Clone(three)
		change(&list[i])
		return list
	}
	without := func(nums ...int) []testLog {
		return slices.DeleteFunc(slices.Clone(three), func(l testLog) bool { return slices.Contains(nums, l.num) })
	}
	for _, tt := range []struct {
		name    string
		logs    []testLog
		state   *manifest.State
		flushed int
		proven  string
		left    string
		asOf    int
	}{
		{"all are live", three, state(2, 7, 2, 4, 6), 0, "1-4 5-8 9-12", "", 12},
		{"obsolete ones lead up", three, state(6, 7, 6), 8, "1-4 5-8 9-12", "", 12},
		{"obsolete ones do not", without(4), state(6, 7, 6), 8, "9-12", "", 12},
		{"nothing is live", without(6), state(6, 7), 8, "", "", 8},
		{"the first is missing", without(2), state(2, 7, 2, 4, 6), 0, "", "5-8 9-12", 0},
		{"the middle one is missing", without(4), state(2, 7, 2, 4, 6), 0, "1-4", "9-12", 4},
		{"the middle one is missing, which nobody knew", without(4), state(2, 7, 2), 0, "1-4", "9-12", 4},
		{"the last one is missing", without(6), state(2, 7, 2, 4, 6), 0, "1-4 5-8", "", 8},
		{"a record is damaged", with(1, func(l *testLog) { l.broken = []int{6} }), state(2, 7, 2, 4, 6), 0, "1-4 5-5", "7-8 9-12", 5},
		{"a record is damaged, but flushed", with(1, func(l *testLog) { l.broken = []int{6} }), state(4, 9, 4, 6), 6, "7-8 9-12", "", 12},
		{"a damaged record, and tables that may go on behind it", with(1, func(l *testLog) { l.broken = []int{6} }), state(4, 9, 4, 6), 4, "", "5-5 7-8 9-12", 4},
		{"tables go on behind a damaged record", with(1, func(l *testLog) { l.broken = []int{7} }), state(4, 9, 4, 6), 6, "", "5-6 8-8 9-12", 6},
		{"tables go on behind it, whatever the numbers of files say", with(1, func(l *testLog) { l.broken = []int{6, 7} }), state(4, 7, 4, 6), 6, "", "5-5 8-8 9-12", 6},
		{"the last record is damaged", with(2, func(l *testLog) { l.broken = []int{12} }), state(2, 7, 2, 4, 6), 0, "1-4 5-8 9-11", "", 11},
		{"no manifest", three, nil, 0, "1-4 5-8 9-12", "", 12},
		{"no manifest, one is missing", without(4), nil, 0, "9-12", "1-4", 12},
		{"no manifest, a record is damaged", with(1, func(l *testLog) { l.broken = []int{6} }), nil, 0, "7-8 9-12", "1-4 5-5", 12},
	} {
		mem := vfs.NewMem()
		s := &survey{ctx: t.Context(), fs: newSource((&Options{FS: mem}).withDefaults()), dir: "db", state: tt.state, storeID: 1}
		s.logs = writeLogs(t, mem, tt.logs)
		l, err := readLogs(s, false)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		v := l.judge(base.Seq(tt.flushed))
		if got := numbers(v.proven); got != tt.proven {
			t.Errorf("%s: proven are %q, want %q", tt.name, got, tt.proven)
		}
		if got := numbers(v.left); got != tt.left || int(v.asOf) != tt.asOf {
			t.Errorf("%s: left are %q, as of %d; want %q, %d", tt.name, got, v.asOf, tt.left, tt.asOf)
		}
		entries := uint64(0)
		for _, it := range v.proven {
			entries += it.stretch.entries
		}
		if e, _, err := l.load(v.proven); err != nil || uint64(len(e.list)) != entries {
			t.Errorf("%s: load = %v, want %d entries", tt.name, err, entries)
		}
	}
}

// The newest record may be damaged or torn. A damaged record was a commit, which is
// missing. A torn one never was, and what has more than one wrong bit counts as torn.
func TestJudge_LastRecord(t *testing.T) {
	for _, tt := range []struct {
		name     string
		hit      func(record []byte)
		findings int
	}{
		{"a bit is flipped", func(b []byte) { b[len(b)-2] ^= 4 }, 1},
		{"a byte is changed", func(b []byte) { b[0] ^= 0xee }, 0},
		{"some bytes are changed", func(b []byte) { copy(b[10:], "?!?!") }, 0},
		{"its end was not written", func(b []byte) { clear(b[len(b)-3:]) }, 0},
		{"it was not written", func(b []byte) { clear(b) }, 0},
	} {
		mem := vfs.NewMem()
		nums := writeLogs(t, mem, []testLog{{num: 2, first: 1, last: 4}, {num: 4, prev: 2, first: 5, last: 8, unsealed: true}})
		name := "db/" + base.LogName(4)
		f, err := mem.OpenReadWrite(name)
		if err != nil {
			t.Fatal(err)
		}
		size, err := f.Size()
		if err != nil {
			t.Fatal(err)
		}
		record := make([]byte, 8+2+1+len(batchAt(8, 1)))
		if _, err := f.ReadAt(record, size-int64(len(record))); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		tt.hit(record)
		if _, err := f.WriteAt(record, size-int64(len(record))); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		s := &survey{ctx: t.Context(), fs: newSource((&Options{FS: mem}).withDefaults()), dir: "db", storeID: 1, logs: nums, state: &manifest.State{
			Version: &manifest.Version{}, StoreID: 1, MinLog: 2, NextFileNum: 5, Logs: []manifest.LogInfo{{Num: 2}, {Num: 4}},
		}}
		l, err := readLogs(s, false)
		if err != nil {
			t.Fatal(err)
		}
		v := l.judge(0)
		if got := numbers(v.proven); got != "1-4 5-7" || v.asOf != 7 || len(v.left) != 0 {
			t.Errorf("%s: proven are %q, as of %d, want 1-4 5-7", tt.name, got, v.asOf)
		}
		if len(s.findings) != tt.findings || tt.findings == 1 && (s.findings[0].Harm != LostCommits || s.findings[0].FirstSeq != 8) {
			t.Errorf("%s: findings %+v, want %d of lost commits from 8 up", tt.name, s.findings, tt.findings)
		}
	}
}
