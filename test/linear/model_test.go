// Package linear has several clients use a store at the same time, next to flushes, compactions,
// crashes, faults and Close. What they see is linearizable: there is an order of all operations, each
// between its call and its return, in which one client alone would have got the same answers.
package linear

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/test/harness"
)

// This file has what a store should do in the eyes of its clients as a model of porcupine.

// keys are the keys of a history. Operations may be about several at once, so one model has all of them.
var keys = []string{"", "\x00", "k", "k\x00", "kk", "\xff"}

// A state is a state of the model.
type state struct {
	epoch int // how often the store was opened before
	now   harness.State
	// back says that a power cut may leave what was found after this epoch: that now was this at the
	// last commit that is known to be durable, or after one since. What was found is known
	// beforehand, so this stands for all of these commits, and states that differ in nothing else
	// are one.
	back bool
}

// A history is the operations of some epochs and, of each but the last, what was found after it.
type history struct {
	start harness.State
	ops   []porcupine.Operation
	found []harness.State
}

// become returns the state after a commit.
func (h *history) become(s state, now harness.State, synced bool) state {
	s.now = now
	found := s.epoch < len(h.found) && now.Equal(h.found[s.epoch])
	s.back = s.back && !synced || found
	return s
}

// An input is an operation.
type input struct {
	step harness.Step
	// Of an opening of the store, which ends an epoch: what it found, and whether the power was cut.
	end   bool
	cut   bool
	found harness.State
	// durability is that of the store.
	durability shale.Durability
	// unknown says that the operation has no answer. If it writes, it has no effect after the end of
	// its epoch: to come after it is to be lost.
	unknown bool
	epoch   int
}

// do does the step from a state, and returns the answer, the state after it, whether it writes, and
// whether what is there then is durable when the call returns. A commit that readers may see early is
// not durable when it is seen, so without an answer it may be lost although somebody has seen it.
func (in input) do(now harness.State) (answer string, after harness.State, writes, synced bool) {
	m := harness.NewModelAt(now, in.durability)
	answer = in.step.Do(&harness.Side{Store: m})
	commits, promised := m.Commits()
	for _, c := range commits {
		if c.Early && in.unknown {
			promised = false
		}
	}
	return answer, m.Now(), len(commits) > 0, promised
}

// step reports whether the answer is right and what the state is then.
func (h *history) step(s state, in input, answer string) (bool, state) {
	switch {
	case in.end:
		right := s.back
		if !in.cut {
			right = s.now.Equal(in.found)
		}
		return right, h.become(state{epoch: s.epoch + 1}, in.found, true)
	case in.unknown && in.epoch != s.epoch:
		return true, s
	case in.step.Fits != nil:
		return in.step.Fits(s.now, answer) == nil, s
	}
	want, after, writes, synced := in.do(s.now)
	if !in.unknown && want != answer {
		return false, s
	}
	if writes || synced {
		s = h.become(s, after, synced)
	}
	return true, s
}

// model returns the model of the history.
func (h *history) model() porcupine.Model {
	h.found = nil
	for _, op := range h.ops { // epochs end one after the other
		if in := op.Input.(input); in.end {
			h.found = append(h.found, in.found)
		}
	}
	return porcupine.Model{
		Init:  func() any { return h.become(state{}, h.start, true) },
		Step:  func(s, in, out any) (bool, any) { return h.step(s.(state), in.(input), out.(string)) },
		Equal: func(s, t any) bool { return s.(state).equal(t.(state)) },
		Hash:  func(s any) uint64 { return s.(state).now.Hash() + uint64(s.(state).epoch) },
		DescribeOperation: func(in, out any) string {
			return in.(input).String() + " = " + fmt.Sprintf("%.200s", out)
		},
		DescribeState: func(s any) string { return fmt.Sprint(s.(state).epoch, s.(state).back, s.(state).now.Entries()) },
	}
}

func (s state) equal(t state) bool {
	return s.epoch == t.epoch && s.back == t.back && s.now.Equal(t.now)
}

func (in input) String() string {
	if in.end {
		return fmt.Sprintf("end of the epoch, power cut %v, found %v", in.cut, harness.Without(in.found, ballast).Entries())
	}
	text := in.step.String()
	if in.unknown {
		text += ", without an answer"
	}
	return text
}

// timeout is how long looking for an order may take; it takes milliseconds.
const timeout = time.Minute

// check looks for an order of the operations. If there is none, it leaves a picture of them behind
// and prints them.
func check(t *testing.T, h history) bool {
	t.Helper()
	model := h.model()
	result := porcupine.CheckOperationsTimeout(model, h.ops, timeout)
	if result == porcupine.Unknown { // the machine may have stood still
		result = porcupine.CheckOperationsTimeout(model, h.ops, timeout)
	}
	if result == porcupine.Ok {
		return true
	}
	if result == porcupine.Illegal {
		h = h.reduce()
	}
	ops := slices.Clone(h.ops)
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, op := range ops {
		fmt.Fprintf(&b, "\n[%d, %d] client %d: %s", op.Call, op.Return, op.ClientId, model.DescribeOperation(op.Input, op.Output))
	}
	picture := "none"
	if dir, err := os.MkdirTemp("", "shale-linear"); err == nil {
		picture = filepath.Join(dir, "history.html")
		_, info := porcupine.CheckOperationsVerbose(model, ops, timeout)
		if err := porcupine.VisualizePath(model, info, picture); err != nil {
			picture = err.Error()
		}
	}
	t.Errorf("the history is %v; a picture: %s; the operations that show it:%s", result, picture, b.String())
	return false
}

// reduce returns a part of an illegal history that is illegal too: with few of the reads.
func (h history) reduce() history {
	illegal := func(ops []porcupine.Operation) bool {
		part := history{start: h.start, ops: ops}
		return porcupine.CheckOperationsTimeout(part.model(), ops, time.Second) == porcupine.Illegal
	}
	for size := len(h.ops) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(h.ops); {
			reads := !slices.ContainsFunc(h.ops[i:i+size], func(op porcupine.Operation) bool { return op.Input.(input).changes() })
			if part := slices.Concat(h.ops[:i], h.ops[i+size:]); reads && illegal(part) {
				h.ops = part
			} else {
				i++
			}
		}
	}
	return h
}

// changes reports whether the operation changes the state, or what a crash may leave of it.
func (in input) changes() bool {
	if in.end {
		return true
	}
	if in.step.Fits != nil {
		return false
	}
	_, _, writes, synced := in.do(harness.State{})
	return writes || synced
}
