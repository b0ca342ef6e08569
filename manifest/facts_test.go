package manifest

import (
	"errors"
	"math"
	"testing"
)

func TestFacts_RefusesDamage(t *testing.T) {
	for name, change := range map[string]func(t *Table){
		"more than there are":    func(t *Table) { t.Expiring = 96 },
		"none, with times":       func(t *Table) { t.Expiring = 0 },
		"times that do not rise": func(t *Table) { t.Expiry = &[9]int64{3, 2, 2, 2, 2, 2, 2, 2, 2} },
		"a time beyond 6 bytes":  func(t *Table) { t.Expiry = &[9]int64{8: 1 << 48} },
	} {
		e := fullEdit()
		change(e.Added[0].Table)
		if got, err := decodeEdit(e.appendTo(nil)); err == nil {
			t.Errorf("%s: decoded: %s", name, got)
		}
		if _, err := e.Encode(nil); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
	field := appendFacts(nil, fullEdit().Added[0])
	if _, err := decodeEdit(append(fullEdit().appendTo(nil), field...)); !errors.Is(err, errFactTable) {
		t.Errorf("facts that stand twice: %v", err)
	}
	if _, err := decodeEdit(field); !errors.Is(err, errFactTable) {
		t.Errorf("facts of no table: %v", err)
	}
	unknown := append([]byte{tagFacts, 5, 1, 13, 61, 1, 7}, fullEdit().appendTo(nil)...)
	if _, err := decodeEdit(unknown); !errors.Is(err, errFactTable) { // the known ones come second
		t.Errorf("an unknown fact, and facts again: %v", err)
	}
	plain := fullEdit()
	plain.Added[0].Table.Facts = Facts{}
	if _, err := decodeEdit(append([]byte{tagFacts, 5, 1, 13, 61, 1, 7}, plain.appendTo(nil)...)); err != nil {
		t.Errorf("an unknown fact that may be skipped: %v", err)
	}
}

func TestTable_Over(t *testing.T) {
	table := &Table{Entries: 100, Tombstones: 20, Facts: Facts{Expiring: 80, Expiry: &[9]int64{5, 10, 20, 30, 40, 50, 60, 70, 80}}}
	for _, c := range []struct {
		ms       int64
		over     uint64
		any      bool
		all      bool
		dense    bool
		nextOver int64
	}{
		{0, 20, false, false, false, 10},
		{5, 20, true, false, false, 10},
		{10, 30, true, false, true, 20},
		{79, 90, true, false, true, 80},
		{80, 100, true, true, true, math.MaxInt64},
	} {
		if table.OverAt(c.ms) != c.over || table.AnyOver(c.ms) != c.any || table.AllOver(c.ms) != c.all ||
			table.DenseAt(c.ms) != c.dense || table.NextOver(c.ms) != c.nextOver {
			t.Errorf("at %d: %d over, any %v, all %v, dense %v, next %d; want %+v", c.ms, table.OverAt(c.ms), table.AnyOver(c.ms),
				table.AllOver(c.ms), table.DenseAt(c.ms), table.NextOver(c.ms), c)
		}
	}
	table.Entries = 101 // one does not expire
	if table.AllOver(80) {
		t.Error("all entries are over, and one never is")
	}
}
