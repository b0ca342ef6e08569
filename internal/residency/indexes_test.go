package residency

import (
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/tree"
)

// indexed returns which tables have their index in memory, newest run first.
func (w *filterWorld) indexed() (has []bool) {
	for t := range w.v.Tables() {
		has = append(has, t.Reader.HasIndex())
	}
	return has
}

// indexBytes returns the size of the resident indexes.
func (w *filterWorld) indexBytes() (sum int64) {
	for t := range w.v.Tables() {
		index, _ := t.Reader.MemoryBytes()
		sum += index
	}
	return sum
}

// Indexes are released beginning with the deepest level, and read again beginning with the newest
// run. An index that can't be read is reported once.
func TestIndexes_Order(t *testing.T) {
	w := newFilterWorld(t, false)
	w.budget.Store(1 << 40)
	var lost []*tree.Table
	w.env.UnreadableIndex = func(t *tree.Table, _ error) { lost = append(lost, t) }
	w.Adjust(w.v)
	all := w.indexBytes()
	if slices.Contains(w.indexed(), false) {
		t.Fatal("there is no limit, and not all indexes are in memory")
	}
	const steps = 100
	for _, up := range []bool{false, true} {
		for i := range steps {
			share := steps - 1 - i
			if up {
				share = i
			}
			w.env.IndexLimit = 1 + all*int64(share)*5/4/steps
			for w.Adjust(w.v) {
				continue
			}
			if got := w.indexBytes(); got > w.env.IndexLimit {
				t.Fatalf("%d bytes of indexes are in memory, of at most %d", got, w.env.IndexLimit)
			}
			has := w.indexed()
			// Within a run the order does not matter.
			for run := 0; run < 4; run += 2 {
				if (!has[run] || !has[run+1]) && (slices.Contains(has[run+2:], true)) {
					t.Fatalf("with %d of %d bytes, %v are in memory", w.env.IndexLimit, all, has)
				}
			}
		}
		if got := w.indexBytes(); up && got != all || !up && got != 0 {
			t.Errorf("at the end %d of %d bytes are in memory; all are wanted: %v", got, all, up)
		}
	}
	table := w.v.Runs[1].Tables[0]
	table.Reader.DropIndex()
	w.fail(errBroken)
	for range 3 {
		w.beginRound()
		w.Adjust(w.v)
	}
	if !slices.Equal(lost, []*tree.Table{table}) || table.Reader.HasIndex() {
		t.Errorf("told of %d tables; the index that could not be read is in memory: %v", len(lost), table.Reader.HasIndex())
	}
	w.fail(nil)
	w.Adjust(w.v)
	if table.Reader.HasIndex() {
		t.Error("an index was tried twice in a round")
	}
	w.beginRound()
	w.Adjust(w.v)
	if !table.Reader.HasIndex() || len(lost) != 1 {
		t.Errorf("an index that can be read again is not in memory; told of %d tables", len(lost))
	}
	table.Reader.DropIndex()
	w.fail(damage)
	w.Adjust(w.v)
	w.fail(nil)
	w.beginRound()
	w.Adjust(w.v)
	if table.Reader.HasIndex() || len(lost) != 2 {
		t.Errorf("a damaged index is tried again; told of %d tables", len(lost))
	}
}

// While the store is closing, no index is read, and Loop ends.
func TestIndexes_Closing(t *testing.T) {
	w := newFilterWorld(t, false)
	w.budget.Store(1 << 40)
	w.v.Runs[0].Tables[0].Reader.DropIndex()
	w.closed.Store(true)
	w.Adjust(w.v)
	if w.indexed()[0] {
		t.Error("an index was read while the store is closing")
	}
}

// Adjust reads a part at a time.
func TestList_First(t *testing.T) {
	tables := make([]*tree.Table, 5)
	l := list{tables: tables, needs: []int64{10, 20, 30, 40, 50}, bytes: 150}
	for most, want := range map[int64]int{0: 1, 9: 1, 10: 2, 30: 3, 149: 5, 150: 5, 1000: 5} {
		if got := len(l.first(most)); got != want {
			t.Errorf("first(%d) has %d tables, want %d", most, got, want)
		}
	}
}
