package remote

import "testing"

// Tables have an eighth of the budget whatever the copies take, an eighth is free for those that come, and what is
// uploaded goes in pieces of a quarter at most.
func TestRoom(t *testing.T) {
	const full = 1 << 30
	for _, c := range []struct {
		copies, tables, lacking  int64 // eighths of the budget
		excess                   int64
		short, waits, roomForAny bool
	}{
		{copies: 1, tables: 6, excess: 0, roomForAny: true},
		{copies: 1, tables: 7, excess: 1, roomForAny: true},
		{copies: 1, tables: 7, lacking: 1, excess: 1, short: true, roomForAny: true},
		{copies: 1, tables: 8, lacking: 1, excess: 2, short: true, waits: true, roomForAny: true},
		{copies: 1, tables: 5, lacking: 2, excess: -1, roomForAny: true},
		{copies: 1, tables: 5, lacking: 3, excess: -1, short: true, roomForAny: true},
		{copies: 7, tables: 0, excess: 0, roomForAny: true},
		{copies: 8, tables: 1, lacking: 1, excess: 1, short: true},
		{copies: 20, tables: 1, excess: 1},
		{copies: 20, tables: 2, lacking: 2, excess: 2, short: true, waits: true},
	} {
		r := room{limit: full, copies: c.copies * full / 8, tables: c.tables * full / 8, lacking: c.lacking * full / 8}
		if r.excess() != c.excess*full/8 || r.isShort() != c.short || r.tables > r.most() != c.waits || r.fits() != c.roomForAny {
			t.Errorf("%+v: excess %d, short %v, waits %v, fits %v", c, r.excess()*8/full, r.isShort(), r.tables > r.most(), r.fits())
		}
	}
	if spare := (room{limit: 1 << 40}).spare(); spare != mostSpare {
		t.Errorf("of 1 TiB %d bytes are spare", spare)
	}
}
