package compaction

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// lastLevel holds most of the data, in one run.
const lastLevel = manifest.NumLevels - 1

// A Kind says what a plan does with its inputs.
type Kind int

// The kinds of plans.
const (
	Nothing Kind = iota // there is nothing to do
	Move                // the inputs go to level To as they are
	Merging             // the inputs are merged into new tables of level To
	Drop                // the inputs hold nothing that a reader could see: they are removed
)

// String returns the kind's name.
func (k Kind) String() string { return [...]string{"nothing", "move", "merge", "drop"}[k] }

// An Input is a list of tables of one run, in the order of their keys.
type Input struct {
	level  int
	run    uint64
	Tables []*manifest.Table
}

// A Plan is a compaction that can be carried out. It is valid for
// the version that it was made from, and for every later version
// as long as every later Pick gets it in its InFlight. These hold:
//
//  1. All tables of level To that are in the output's run or a newer one, and that
//     share a user key with the range of the inputs from level From, are inputs.
//     So are all tables of the output's run in the range [smallest, largest].
//  2. Every table of level From that is older than one of the inputs there and overlaps
//     it is an input. In level 0, every older table that overlaps the range of all
//     inputs is one. The same holds for inputs of level To, down to the output's run.
//  3. The levels between From and To are empty.
//
// So no data that is newer than an input lies below the output. And all data that
// is older than an input and shares its keys is in another input or in Older.
type Plan struct {
	Kind     Kind
	From, To int     // levels
	Inputs   []Input // newest run first

	// The range of user keys of all inputs. Both ends are inclusive.
	smallest, largest []byte

	// Older has the tables in older runs of level To, and in deeper
	// levels, that may hold older versions of the inputs' keys.
	Older Older
	// Grandparents are the tables of level To+1 in the range, in the order of
	// their largest keys. A table of the output will be merged with them later.
	Grandparents []*manifest.Table
	// Guards are the tables of the next older run of level To in the range. A table of
	// the output ends where a guard ends, and so overlaps only one of them if possible.
	Guards []*manifest.Table

	// Finished are range deletes that are needed no more once the plan is carried out.
	Finished []manifest.Finished

	Reason string // why: "level 0", "size", "tombstones", "range deletes", "expired", "often read", or byRequest

	outputRun uint64 // see OutputRun
	tableSize int64  // see TableSize
	clock     int64  // see Clock
}

// OutputRun returns the ID of the run of level To that the output joins.
func (p *Plan) OutputRun() uint64 { return p.outputRun }

// TableSize returns the target size of a table that the plan writes, in bytes.
func (p *Plan) TableSize() int64 { return p.tableSize }

// byRequest is the reason of all plans of a Manual.
const byRequest = "range"

// ByRequest reports whether the plan is a step of a Manual.
func (p *Plan) ByRequest() bool { return p.Reason == byRequest }

// bottom reports whether no older version of any of the inputs' keys lies below.
func (p *Plan) bottom() bool { return p.Older.none() }

// inputTables returns the number of input tables.
func (p *Plan) inputTables() int {
	n := 0
	for _, in := range p.Inputs {
		n += len(in.Tables)
	}
	return n
}

// Reads reports whether the table is an input.
func (p *Plan) Reads(num base.FileNum) bool {
	for _, in := range p.Inputs {
		for _, t := range in.Tables {
			if t.Num == num {
				return true
			}
		}
	}
	return false
}

// inputTotals returns the sums over the input tables.
func (p *Plan) inputTotals() manifest.Totals {
	var sum manifest.Totals
	for _, in := range p.Inputs {
		sum.Add(manifest.TotalsOf(in.Tables))
	}
	return sum
}

// InputBytes returns the total size of the input tables in bytes.
func (p *Plan) InputBytes() int64 { return p.inputTotals().Bytes }

// Edit returns the edit that carries out the plan: it removes the inputs and adds
// the output. added are the tables written by a merge, and is empty for other kinds.
func (p *Plan) Edit(added ...manifest.Added) *manifest.Edit {
	e := &manifest.Edit{Added: added, Finished: p.Finished}
	for _, in := range p.Inputs {
		for _, t := range in.Tables {
			e.Removed = append(e.Removed, manifest.Removed{Level: in.level, Num: t.Num, Table: t})
			if p.Kind == Move {
				e.Added = append(e.Added, manifest.Added{Level: p.To, Run: p.outputRun, Table: t})
			}
		}
	}
	return e
}

// CheckMerged returns an error unless the results, one for each sub-range,
// account for every entry of the plan's inputs.
func (p *Plan) CheckMerged(results ...MergeResult) error {
	var in uint64
	for _, r := range results {
		in += r.in
	}
	if want := p.inputTotals().Entries; in != want {
		return fmt.Errorf("compaction: merge read %d entries, its tables have %d", in, want)
	}
	return nil
}

// String describes the plan for tests and events: one line, then one for each input.
func (p *Plan) String() string {
	if p.Kind == Nothing {
		return "nothing"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s L%d -> L%d (%s)", p.Kind, p.From, p.To, p.Reason)
	for _, in := range p.Inputs {
		fmt.Fprintf(&b, "\n  L%d", in.level)
		if in.run != 0 {
			fmt.Fprintf(&b, ".%d", in.run)
		}
		b.WriteByte(':')
		for _, t := range in.Tables {
			fmt.Fprintf(&b, " %s", t)
		}
	}
	if p.bottom() {
		b.WriteString("\n  bottom")
	}
	return b.String()
}

// widen extends the plan's range to hold tables.
func (p *Plan) widen(tables ...*manifest.Table) {
	for _, t := range tables {
		if p.largest == nil || bytes.Compare(t.Smallest, p.smallest) < 0 {
			p.smallest = t.Smallest
		}
		if p.largest == nil || bytes.Compare(t.Largest, p.largest) > 0 {
			p.largest = t.Largest
		}
	}
}

// An InFlight is the set of plans that are being carried out, and of tables that are
// set aside. The zero InFlight is empty. Its owner is the caller that picks plans, and guards it with a lock.
type InFlight struct {
	plans []*Plan
	busy  map[base.FileNum]bool // the inputs of plans
	aside map[base.FileNum]bool // see SetAside
}

// Empty reports whether no plan is in flight.
func (f *InFlight) Empty() bool { return len(f.plans) == 0 }

// SetAside keeps later plans away from a table, as if it
// were the input of a plan in flight, until TakeBack.
func (f *InFlight) SetAside(num base.FileNum) {
	if f.aside == nil {
		f.aside = make(map[base.FileNum]bool)
	}
	f.aside[num] = true
}

// AnyAside reports whether any table is set aside.
func (f *InFlight) AnyAside() bool { return len(f.aside) > 0 }

// IsAside reports whether the table is set aside.
func (f *InFlight) IsAside(num base.FileNum) bool { return f.aside[num] }

// TakeBack undoes SetAside.
func (f *InFlight) TakeBack(num base.FileNum) { delete(f.aside, num) }

// WithAside returns the same plans in flight without the tables set
// aside. A picker that gets the result may choose these tables too. The
// maps of plans are shared with f, so both are used under the same lock.
func (f InFlight) WithAside() InFlight {
	f.aside = nil
	return f
}

// isBusy reports whether the table is an input of a plan in flight, or set aside.
func (f *InFlight) isBusy(num base.FileNum) bool { return f.busy[num] || f.aside[num] }

// Add notes that p is being carried out. Until Remove, no
// pick takes its inputs, or writes to level To in its range.
func (f *InFlight) Add(p *Plan) {
	if f.busy == nil {
		f.busy = make(map[base.FileNum]bool)
	}
	f.plans = append(f.plans, p)
	for _, in := range p.Inputs {
		for _, t := range in.Tables {
			f.busy[t.Num] = true
		}
	}
}

// Remove notes that p, which was added, has ended, successfully or not.
func (f *InFlight) Remove(p *Plan) {
	for i := range f.plans {
		if f.plans[i] == p {
			f.plans = append(f.plans[:i:i], f.plans[i+1:]...)
			break
		}
	}
	for _, in := range p.Inputs {
		for _, t := range in.Tables {
			delete(f.busy, t.Num)
		}
	}
}

// anyBusy reports whether one of the tables is an input of a plan in flight, or set aside.
func (f *InFlight) anyBusy(tables []*manifest.Table) bool {
	if len(f.busy)+len(f.aside) == 0 {
		return false
	}
	for _, t := range tables {
		if f.isBusy(t.Num) {
			return true
		}
	}
	return false
}

// writes reports whether a plan in flight writes to level in [lo, hi].
func (f *InFlight) writes(level int, lo, hi []byte) bool {
	for _, p := range f.plans {
		if p.To == level && bytes.Compare(p.smallest, hi) <= 0 && bytes.Compare(p.largest, lo) >= 0 {
			return true
		}
	}
	return false
}
