package shale

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// This file holds what a few keys of a store should do in the eyes of clients
// that work at the same time, as a model of porcupine: it looks for an order of
// all operations, each between its call and its return, in which one client
// alone would have got the same answers.

// linKeys are the keys of a history. Operations may be about several at once,
// so one model has all of them.
var linKeys = [...]string{"", "\x00", "k", "k\x00", "kk", "\xff"}

// linValues is what each key has: the number of the write, 0 for nothing.
type linValues [len(linKeys)]uint16

// linValue returns the value that write n puts. Many are long, so that
// memtables fill.
func linValue(n uint16) []byte {
	return append(fmt.Appendf(nil, "%d.", n), bytes.Repeat([]byte{byte(n)}, int(n)*37%400)...)
}

// linNumber returns the number of a value.
func linNumber(value []byte) (n uint16, err error) {
	if _, err := fmt.Sscanf(string(value), "%d.", &n); err != nil || n == 0 || !bytes.Equal(value, linValue(n)) {
		return 0, fmt.Errorf("%.40q is nobody's value", value)
	}
	return n, nil
}

// linState is a state of the model.
type linState struct {
	epoch int // how often the store was opened before
	now   linValues
	// back says that a power cut may leave what was found after this epoch:
	// that these were the values at the last commit that is known to be durable
	// or after one since. What was found is known beforehand, so this stands
	// for all of these commits, and states that differ in nothing else are one.
	back bool
}

// A linHistory is the operations of a history and, of each epoch but the last,
// what was found after it.
type linHistory struct {
	ops   []porcupine.Operation
	found []linValues
}

// isFound says that the values are those that were found after the epoch.
func (h *linHistory) isFound(s linState) bool {
	return s.epoch < len(h.found) && s.now == h.found[s.epoch]
}

// commit returns the state after a commit.
func (h *linHistory) commit(s linState, writes []linWrite, synced bool) linState {
	for _, w := range writes {
		s.now[w.key] = w.value
	}
	s.back = s.back && !synced || h.isFound(s)
	return s
}

type linKind int

const (
	linGet         linKind = iota // of one key or, at one moment, of several
	linHas                        // of one key
	linPut                        // or deletion, or ingestion, of one key or several
	linPutIfAbsent                // of one key
	linSync                       // or flush, or resumption after a failure
	linReopen                     // after the store was closed, or its process died
	linCrash                      // the same after the power was cut
)

// linInput is an operation.
type linInput struct {
	kind   linKind
	how    string // in words
	keys   []int  // that are asked
	writes []linWrite
	synced bool // the writes are durable when the call returns
	// early says that the writes can be seen before they are durable: the call
	// returned, and all that came before them is durable too, or it did not
	// return, and they may be lost although somebody has seen them. Without it,
	// synced writes are durable when they can be seen.
	early bool
	// disk says that the call writes to the disk for no client, so that it fails
	// when the disk does.
	disk bool
	// epoch is when a write with an unknown outcome was begun: after the end
	// of its epoch it has no effect, so that to come after it is to be lost.
	unknown bool
	epoch   int
}

type linWrite struct {
	key   int
	value uint16 // 0: deleted
}

// linOutput is an answer.
type linOutput struct {
	values   linValues // of the keys asked; linHas: 1 for all that are there
	inserted bool
}

// step says whether the answer is right and what the state is then.
func (h *linHistory) step(s linState, in linInput, out linOutput) (bool, linState) {
	if in.unknown && in.epoch != s.epoch {
		return true, s
	}
	// Of a write that returned before the epoch's end it makes no difference
	// when it became durable: only the end asks for that.
	synced := in.synced && !(in.early && in.unknown)
	switch in.kind {
	case linGet, linHas:
		for _, k := range in.keys {
			value := s.now[k]
			if in.kind == linHas {
				value = min(value, 1)
			}
			if value != out.values[k] {
				return false, s
			}
		}
		return true, s
	case linPut:
		return true, h.commit(s, in.writes, synced)
	case linPutIfAbsent:
		absent := s.now[in.writes[0].key] == 0
		if !in.unknown && absent != out.inserted {
			return false, s
		}
		if absent {
			s = h.commit(s, in.writes, synced)
		}
		return true, s
	case linSync:
		return true, h.commit(s, nil, true)
	}
	right := s.back
	if in.kind == linReopen {
		right = s.now == out.values
	}
	return right, h.commit(linState{epoch: s.epoch + 1, now: out.values}, nil, true)
}

// model returns the model of the history.
func (h *linHistory) model() porcupine.Model {
	h.found = nil
	for _, op := range h.ops { // epochs end one after the other
		if kind := op.Input.(linInput).kind; kind == linReopen || kind == linCrash {
			h.found = append(h.found, op.Output.(linOutput).values)
		}
	}
	return porcupine.Model{
		Init: func() any { return h.commit(linState{}, nil, true) },
		Step: func(s, in, out any) (bool, any) { return h.step(s.(linState), in.(linInput), out.(linOutput)) },
		Hash: func(s any) (hash uint64) {
			for _, n := range s.(linState).now {
				hash = hash*0x9e3779b97f4a7c15 + uint64(n)
			}
			return hash
		},
		DescribeOperation: func(in, out any) string { return in.(linInput).describe(out.(linOutput)) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}

func (in linInput) describe(out linOutput) string {
	what := in.how
	for _, w := range in.writes {
		what += fmt.Sprintf(" %q=%d", linKeys[w.key], w.value)
	}
	for _, k := range in.keys {
		what += fmt.Sprintf(" %q:%d", linKeys[k], out.values[k])
	}
	if in.kind == linPutIfAbsent {
		what += fmt.Sprint(" inserted ", out.inserted)
	}
	if in.synced {
		what += " synced"
	}
	if in.early {
		what += " early"
	}
	if in.unknown {
		what += " unknown"
	}
	return what
}

// linTimeout is how long looking for an order may take; it takes milliseconds.
const linTimeout = time.Minute

// checkLinear looks for an order of the operations. If there is none, it leaves
// a picture of them behind and prints them.
func checkLinear(t *testing.T, ops []porcupine.Operation) porcupine.CheckResult {
	t.Helper()
	model := (&linHistory{ops: ops}).model()
	result := porcupine.CheckOperationsTimeout(model, ops, linTimeout)
	if result == porcupine.Unknown { // the machine may have stood still
		result = porcupine.CheckOperationsTimeout(model, ops, linTimeout)
	}
	if result == porcupine.Ok {
		return result
	}
	if result == porcupine.Illegal {
		ops = linReduce(ops)
	}
	ops = slices.Clone(ops)
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, op := range ops {
		fmt.Fprintf(&b, "\n[%d, %d] client %d: %s", op.Call, op.Return, op.ClientId, model.DescribeOperation(op.Input, op.Output))
	}
	picture := "none"
	if dir, err := os.MkdirTemp("", "shale-linear"); err == nil {
		picture = filepath.Join(dir, "history.html")
		_, info := porcupine.CheckOperationsVerbose(model, ops, linTimeout)
		if err := porcupine.VisualizePath(model, info, picture); err != nil {
			picture = err.Error()
		}
	}
	t.Errorf("the history is %v; a picture: %s; the operations that show it:%s", result, picture, b.String())
	return result
}

// linReduce returns a part of an illegal history that is illegal too: what is
// about one key, or two, if that suffices, and of the readings few. A history
// without some of its keys or of its readings is right if the whole is.
func linReduce(ops []porcupine.Operation) []porcupine.Operation {
	illegal := func(ops []porcupine.Operation) bool {
		return porcupine.CheckOperationsTimeout((&linHistory{ops: ops}).model(), ops, time.Second) == porcupine.Illegal
	}
	for n := range len(linKeys) * len(linKeys) {
		i, j := n%len(linKeys), (n%len(linKeys)+n/len(linKeys))%len(linKeys)
		if part := linAbout(ops, i, j); illegal(part) {
			ops = part
			break
		}
	}
	for i := len(ops) - 1; i >= 0; i-- {
		if kind := ops[i].Input.(linInput).kind; kind != linGet && kind != linHas {
			continue
		}
		if part := slices.Delete(slices.Clone(ops), i, i+1); illegal(part) {
			ops = part
		}
	}
	return ops
}

// linAbout returns what the operations say of two keys.
func linAbout(ops []porcupine.Operation, i, j int) (part []porcupine.Operation) {
	for _, op := range ops {
		in, out := op.Input.(linInput), op.Output.(linOutput)
		in.keys = slices.DeleteFunc(slices.Clone(in.keys), func(k int) bool { return k != i && k != j })
		in.writes = slices.DeleteFunc(slices.Clone(in.writes), func(w linWrite) bool { return w.key != i && w.key != j })
		for k := range out.values {
			if k != i && k != j {
				out.values[k] = 0
			}
		}
		if len(in.keys) > 0 || len(in.writes) > 0 || in.kind >= linSync {
			op.Input, op.Output = in, out
			part = append(part, op)
		}
	}
	return part
}

// TestLinear_Model holds the model against histories that are right and wrong.
func TestLinear_Model(t *testing.T) {
	put := func(value uint16, synced bool) linInput {
		return linInput{kind: linPut, how: "Put", writes: []linWrite{{2, value}}, synced: synced}
	}
	unknown := linInput{kind: linPut, how: "Put", writes: []linWrite{{2, 3}}, unknown: true}
	// A write that is durable when it is seen, and one that is when it returns.
	strict, early := unknown, unknown
	strict.synced, early.synced, early.early = true, true, true
	acked := early
	acked.unknown = false
	ingest := linInput{kind: linPut, how: "Ingest", writes: []linWrite{{2, 4}, {3, 5}}, synced: true}
	both := linInput{kind: linGet, how: "Checkpoint", keys: []int{2, 3}}
	claim := func(value uint16) linInput {
		return linInput{kind: linPutIfAbsent, how: "PutIfAbsent", writes: []linWrite{{2, value}}}
	}
	won, none := linOutput{inserted: true}, linOutput{}
	read := linInput{kind: linGet, how: "Get", keys: []int{2}}
	has := func(value uint16) linOutput { return linOutput{values: linValues{2: value}} }
	type op struct {
		call, ret int64
		in        linInput
		out       linOutput
	}
	crash, reopen := linInput{kind: linCrash}, linInput{kind: linReopen}
	for name, c := range map[string]struct {
		right bool
		ops   []op
	}{
		"order":                                {true, []op{{1, 2, put(1, false), linOutput{}}, {3, 4, read, has(1)}}},
		"stale":                                {false, []op{{1, 2, put(1, false), linOutput{}}, {3, 4, put(2, false), linOutput{}}, {5, 6, read, has(1)}}},
		"at once":                              {true, []op{{1, 4, put(1, false), linOutput{}}, {2, 3, read, has(0)}}},
		"backwards":                            {false, []op{{1, 9, put(1, false), linOutput{}}, {2, 3, read, has(1)}, {4, 5, read, has(0)}}},
		"unsynced, lost":                       {true, []op{{1, 2, put(1, true), linOutput{}}, {3, 4, put(2, false), linOutput{}}, {5, 6, crash, has(1)}}},
		"synced, lost":                         {false, []op{{1, 2, put(1, true), linOutput{}}, {3, 4, put(2, true), linOutput{}}, {5, 6, crash, has(1)}}},
		"unsynced, lost by Open":               {false, []op{{1, 2, put(1, true), linOutput{}}, {3, 4, put(2, false), linOutput{}}, {5, 6, reopen, has(1)}}},
		"lost behind a hole":                   {false, []op{{1, 2, put(1, false), linOutput{}}, {3, 4, put(2, true), linOutput{}}, {5, 6, crash, has(0)}}},
		"unknown, there":                       {true, []op{{1, 7, unknown, linOutput{}}, {5, 6, crash, has(3)}, {8, 9, read, has(3)}}},
		"unknown, lost":                        {true, []op{{1, 7, unknown, linOutput{}}, {5, 6, crash, has(0)}, {8, 9, read, has(0)}}},
		"unknown, lost after read":             {false, []op{{1, 7, unknown, linOutput{}}, {2, 3, read, has(3)}, {5, 6, reopen, has(0)}}},
		"early, lost when it had returned":     {false, []op{{1, 2, put(1, true), none}, {3, 4, acked, none}, {5, 6, crash, has(1)}}},
		"early, loses the one before":          {false, []op{{1, 2, put(1, false), none}, {3, 4, acked, none}, {5, 6, crash, has(0)}}},
		"early, under way, read and lost":      {true, []op{{1, 2, put(1, true), none}, {3, 9, early, none}, {4, 5, read, has(3)}, {6, 7, crash, has(1)}}},
		"early, under way, read and there":     {true, []op{{1, 2, put(1, true), none}, {3, 9, early, none}, {4, 5, read, has(3)}, {6, 7, crash, has(3)}}},
		"early, under way, read, lost by Open": {false, []op{{3, 9, early, none}, {4, 5, read, has(3)}, {6, 7, reopen, has(0)}}},
		"early, back when it was lost":         {false, []op{{3, 9, early, none}, {6, 7, crash, has(0)}, {8, 9, read, has(3)}}},
		"early, under way, loses a synced one": {false, []op{{1, 2, put(1, true), none}, {3, 9, early, none}, {4, 5, read, has(3)}, {6, 7, crash, has(0)}}},
		"not early, under way, read and lost":  {false, []op{{1, 2, put(1, true), none}, {3, 9, strict, none}, {4, 5, read, has(3)}, {6, 7, crash, has(1)}}},
		"not early, under way, lost unseen":    {true, []op{{1, 2, put(1, true), none}, {3, 9, strict, none}, {6, 7, crash, has(1)}}},
		"early, a later one lost":              {true, []op{{3, 8, acked, none}, {4, 5, read, has(3)}, {6, 7, put(1, false), none}, {9, 10, crash, has(3)}}},
		"early, lost, a later one there":       {false, []op{{3, 4, acked, none}, {5, 6, put(1, false), none}, {7, 8, crash, has(0)}}},
		"early, synced by another call":        {false, []op{{1, 9, early, none}, {2, 3, read, has(3)}, {4, 5, linInput{kind: linSync, how: "Sync"}, none}, {6, 7, crash, has(0)}}},
		"ingested, seen whole":                 {true, []op{{1, 4, ingest, none}, {2, 3, both, linOutput{values: linValues{2: 4, 3: 5}}}}},
		"ingested, seen in part":               {false, []op{{1, 4, ingest, none}, {2, 3, both, linOutput{values: linValues{2: 4}}}}},
		"ingested, lost":                       {false, []op{{1, 2, ingest, none}, {3, 4, crash, has(0)}}},
		"claimed by one":                       {true, []op{{1, 4, claim(1), won}, {2, 5, claim(2), none}}},
		"claimed by two":                       {false, []op{{1, 4, claim(1), won}, {2, 5, claim(2), won}}},
		"claimed by two, deleted between":      {true, []op{{1, 4, claim(1), won}, {2, 5, claim(2), won}, {2, 6, put(0, false), none}}},
		"unknown, back later":                  {false, []op{{1, 7, unknown, linOutput{}}, {5, 6, crash, has(0)}, {8, 9, read, has(3)}}},
	} {
		var ops []porcupine.Operation
		for _, o := range c.ops {
			ops = append(ops, porcupine.Operation{Input: o.in, Output: o.out, Call: o.call, Return: o.ret})
		}
		if right := porcupine.CheckOperations((&linHistory{ops: ops}).model(), ops); right != c.right {
			t.Errorf("%s: %v, want %v", name, right, c.right)
		}
	}
}
