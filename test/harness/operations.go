package harness

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/shaledb/shale"
)

// A Side is who does the steps of a program: a store or its Model, with the iterators and snapshots
// that the steps have opened.
type Side struct {
	Store
	// Seen, if it is set, is called by steps that go on after the moment whose state they show.
	Seen func()
	// NewDir, if it is set, returns the name of a directory for a checkpoint.
	NewDir func() string
	// Meanwhile, if it is set, is called by steps that hold something, to let others work.
	Meanwhile func()

	snapshots [slots]Snapshot
	iterators [slots]Iterator
	txns      [slots]Txn
}

func (s *Side) seen() {
	if s.Seen != nil {
		s.Seen()
	}
}

func (s *Side) meanwhile() {
	if s.Meanwhile != nil {
		s.Meanwhile()
	}
}

// reader returns the store or the snapshot in a slot, if one is open there.
func (s *Side) reader(slot int) Reader {
	if slot >= 0 && s.snapshots[slot] != nil {
		return s.snapshots[slot]
	}
	return s.Store
}

// LetGo closes all iterators and snapshots, and ends all transactions. Iterators are moved once more before.
func (s *Side) LetGo() string {
	var answer strings.Builder
	for i, tx := range s.txns {
		if tx != nil {
			answer.WriteString(letGo(tx))
		}
		s.txns[i] = nil
	}
	for i, it := range s.iterators {
		if it != nil {
			writePlace(&answer, it, it.Next())
			fmt.Fprintf(&answer, "Close %s; ", ErrText(it.Close()))
		}
		s.iterators[i] = nil
	}
	for i, snapshot := range s.snapshots {
		if snapshot != nil {
			has, err := snapshot.Has(nil)
			fmt.Fprintf(&answer, "Has %v %s, Close %s; ", has, ErrText(err), ErrText(snapshot.Close()))
		}
		s.snapshots[i] = nil
	}
	return answer.String()
}

// A Step is an operation with its arguments.
type Step struct {
	Name, Args string
	// Do does the step and returns the answers of all its calls. It may be called for several sides.
	Do func(s *Side) (answer string)
	// Fits, if it is set, judges the answer of a store by the state that the model has. Otherwise
	// the answer must be that of the Model.
	Fits func(now State, answer string) error
	// Life, if it is set, is done instead of Do: the step is one in the life of the store, such as a crash.
	Life func(l *Life) error
}

func (s Step) String() string { return s.Name + " " + s.Args }

// An Operation is a kind of step.
type Operation struct {
	Name   string
	Weight int // of 200 or so: how often a program has it
	Draw   func(s *Source) Step
}

// Operations are all that programs do with an open store. Add a row to have another one tested
// next to all others, under all options, with crashes, faults and other clients.
var Operations = []Operation{
	{"put", 16, drawPut},
	{"delete", 8, drawDelete},
	{"deleteRange", 3, drawDeleteRange},
	{"batch", 10, drawBatch},
	{"putIfAbsent", 8, drawPutIfAbsent},
	{"putTTL", 8, drawPutTTL},
	{"putIfAbsentTTL", 4, drawPutIfAbsentTTL},
	{"update", 6, drawUpdate},
	{txnName, 16, drawTxn},
	{"fill", 5, drawFill},
	{"ingest", 4, drawIngest},
	{"refused", 2, drawRefused},

	{"lookup", 30, drawLookup},
	{"getMany", 8, drawGetMany},
	{"mayContain", 4, drawMayContain},
	{"mayContainMany", 4, drawMayContainMany},
	{"scan", 14, drawScan},
	{"snapshot", 5, drawSnapshot},
	{"iterator", 5, drawIterator},
	{"move", 30, drawMove},
	{"readOnly", 1, drawReadOnly},

	{"sync", 2, drawSync},
	{"flush", 5, drawFlush},
	{"compact", 4, drawCompact},
	{"holdLogs", 1, drawHoldLogs},
	{"checkpoint", 2, drawCheckpoint},
	{"useCopy", 2, drawUseCopy},
	{"rebuildFilters", 2, drawRebuildFilters},
	{"exportFilters", 1, drawExportFilters},
	{"verify", 1, drawVerify},
	{"tables", 2, drawTables},
}

// ErrText says in a word what an error is. Texts of errors are no answers to compare: what they say
// has tests of its own.
func ErrText(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, shale.ErrNotFound):
		return "not found"
	case errors.Is(err, shale.ErrClosed):
		return "closed"
	case errors.Is(err, shale.ErrConflict):
		return "conflict"
	case errors.Is(err, shale.ErrTxnDone):
		return "done"
	}
	return "refused"
}

// ShowKey shows a key as Show does.
func ShowKey(key string) string { return Show([]byte(key)) }

// Show shows bytes briefly, but so that different ones look different.
func Show(b []byte) string {
	if b == nil {
		return "nil"
	}
	if len(b) <= 32 {
		return fmt.Sprintf("%q", b)
	}
	h := fnv.New64a()
	_, _ = h.Write(b) // never fails
	return fmt.Sprintf("%q..(%d bytes, %x)", b[:16], len(b), h.Sum64())
}

func showRange(r shale.Range) string {
	return fmt.Sprintf("[%s, %s) reverse %v, keys only %v, limit %d", Show(r.Lower), Show(r.Upper), r.Reverse, r.KeysOnly, r.Limit)
}
