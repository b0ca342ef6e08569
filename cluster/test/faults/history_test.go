//go:build unix

package faults

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// An input is an operation on one key, as the model knows it.
type input struct{ kind, value string }

// An output is its answer.
type output struct {
	value    string // of a get; "" stands for an absent key
	inserted bool
	unknown  bool // it may happen at any time, or never
}

// register is the model of one key.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) {
		now, i, o := state.(string), in.(input), out.(output)
		switch i.kind {
		case "put":
			return true, i.value
		case "delete":
			return true, ""
		case "put if absent":
			if now != "" {
				return o.unknown || !o.inserted, now
			}
			return o.unknown || o.inserted, i.value
		}
		return o.value == now, now
	},
	DescribeOperation: func(in, out any) string {
		i, o := in.(input), out.(output)
		switch {
		case i.kind == "get":
			return fmt.Sprintf("get = %q", o.value)
		case o.unknown:
			return fmt.Sprintf("%s %q: unknown", i.kind, i.value)
		case strings.HasPrefix(i.kind, "put if absent"):
			return fmt.Sprintf("%s %q = %v", i.kind, i.value, o.inserted)
		}
		return fmt.Sprintf("%s %q", i.kind, i.value)
	},
}

const (
	keyPrefix      = "k/"
	expiringPrefix = "e/" // of keys whose values may expire

	ttlSuffix = " ttl" // of the kind of a write whose value expires
	mark      = "~"    // behind a value in the state of a model that may be over at any time
)

// expiring is the model of a key whose values may expire. The group alone knows when, by clocks that differ and jump. So a value
// may be over at any time, but then it is for all that comes later.
var expiring = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{""} },
	Step: func(state, in, out any) (all []any) {
		i := in.(input)
		plain := input{strings.TrimSuffix(i.kind, ttlSuffix), i.value}
		for _, now := range orOver(state.(string)) {
			before := strings.TrimSuffix(now, mark)
			switch ok, after := register.Step(before, plain, out); {
			case !ok:
			case after == before: // no value is written twice
				all = append(all, now)
			case plain != i:
				all = append(all, i.value+mark)
			default:
				all = append(all, after)
			}
		}
		return all
	},
	DescribeOperation: register.DescribeOperation,
}).ToModel()

// orOver returns what may be of a value when the next operation comes.
func orOver(value string) []string {
	if strings.HasSuffix(value, mark) {
		return []string{value, ""}
	}
	return []string{value}
}

// never is when an operation ends whose outcome is unknown.
const never = math.MaxInt64

// modelOf returns the model of the operations under a key, or on the slots of a prefix.
func modelOf(key string) porcupine.Model {
	switch {
	case strings.HasPrefix(key, slotPrefix) && strings.HasSuffix(key, expiringSlots):
		return expiringSlotsModel
	case strings.HasPrefix(key, slotPrefix):
		return slots
	case strings.HasPrefix(key, expiringPrefix):
		return expiring
	}
	return register
}

// A history is what clients have done, by key. Its clock is a counter.
type history struct {
	clock atomic.Int64
	mu    sync.Mutex
	ops   map[string][]porcupine.Operation
}

func newHistory() *history { return &history{ops: map[string][]porcupine.Operation{}} }

// begin returns the time at which an operation begins.
func (h *history) begin() int64 { return h.clock.Add(1) }

// add notes an operation that was done, or whose outcome is unknown. Of an operation that was
// refused nobody must see anything, so it is left out.
func (h *history) add(client int, key string, in input, out output, began int64) {
	h.addTo(key, client, in, out, out.unknown, began)
}

// addTo is add for an operation of any model.
func (h *history) addTo(key string, client int, in, out any, unknown bool, began int64) {
	end := int64(never)
	if !unknown {
		end = h.clock.Add(1)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops[key] = append(h.ops[key], porcupine.Operation{ClientId: client, Input: in, Output: out, Call: began, Return: end})
}

// A verdict is what a check has found.
type verdict struct {
	keys, slots, undecided int
	illegal                []string // keys
}

// check looks, for each key, for an order of the operations that explains the answers.
func (h *history) check() (v verdict) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range sortedKeys(h.ops) {
		model, ops := modelOf(key), h.ops[key]
		if strings.HasPrefix(key, slotPrefix) {
			v.slots++
		} else {
			ops = prune(ops)
			v.keys++
		}
		switch porcupine.CheckOperationsTimeout(model, ops, 20*time.Second) {
		case porcupine.Illegal:
			v.illegal = append(v.illegal, key)
		case porcupine.Unknown:
			v.undecided++
		}
	}
	return v
}

// prune leaves out writes with an unknown outcome that explain nothing, which makes the search short.
// No get has seen their values, and there is no put-if-absent that was too late, which an unseen value
// may explain. Such a write can be ordered behind everything else. Deletes stay, and values that expire, for an absent key
// does not say why it is absent.
func prune(ops []porcupine.Operation) []porcupine.Operation {
	seen := map[string]bool{}
	for _, op := range ops {
		if i, o := op.Input.(input), op.Output.(output); i.kind == "get" {
			seen[o.value] = true
		} else if strings.HasPrefix(i.kind, "put if absent") && !o.unknown && !o.inserted {
			return ops
		}
	}
	return slices.DeleteFunc(slices.Clone(ops), func(op porcupine.Operation) bool {
		i := op.Input.(input)
		return op.Output.(output).unknown && i.kind != "delete" && !strings.HasSuffix(i.kind, ttlSuffix) && !seen[i.value]
	})
}

// text prints the operations on a key in the order in which they began.
func (h *history) text(key string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ops := slices.Clone(h.ops[key])
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, op := range ops {
		end := fmt.Sprint(op.Return)
		if op.Return == never {
			end = "..."
		}
		fmt.Fprintf(&b, "  %d-%s client %d: %s\n", op.Call, end, op.ClientId, modelOf(key).DescribeOperation(op.Input, op.Output))
	}
	return b.String()
}

// draw writes a page with the operations on a key, and returns its name.
func (h *history) draw(key string) string {
	_, info := porcupine.CheckOperationsVerbose(modelOf(key), h.ops[key], 10*time.Second)
	name := filepath.Join(os.TempDir(), "shale-history-"+strings.ReplaceAll(key, "/", "-")+".html")
	if err := porcupine.VisualizePath(modelOf(key), info, name); err != nil {
		return err.Error()
	}
	return name
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// The check tells correct histories from wrong ones.
func TestHistory_Check(t *testing.T) {
	type o struct {
		call, end int64
		in        input
		out       output
	}
	put := func(call, end int64, v string) o { return o{call, end, input{"put", v}, output{unknown: end == never}} }
	del := func(call, end int64) o { return o{call, end, input{"delete", ""}, output{unknown: end == never}} }
	get := func(call, end int64, v string) o { return o{call, end, input{"get", ""}, output{value: v}} }
	pia := func(call, end int64, v string, in bool) o {
		return o{call, end, input{"put if absent", v}, output{inserted: in, unknown: end == never}}
	}
	for _, c := range []struct {
		name  string
		legal bool
		ops   []o
	}{
		{"a read after a write", true, []o{put(1, 2, "a"), get(3, 4, "a")}},
		{"a stale read", false, []o{put(1, 2, "a"), put(3, 4, "b"), get(5, 6, "a")}},
		{"a lost write", false, []o{put(1, 2, "a"), get(3, 4, "")}},
		{"reads that go back", false, []o{put(1, 9, "a"), get(2, 3, "a"), get(4, 5, "")}},
		{"a write under way", true, []o{put(1, 9, "a"), get(2, 3, ""), get(4, 5, "a")}},
		{"an unknown write that happened late", true, []o{put(1, never, "a"), put(2, 3, "b"), get(4, 5, "b"), get(6, 7, "a")}},
		{"an unknown write that happened twice", false, []o{put(1, never, "a"), put(2, 3, "b"), get(4, 5, "a"), put(6, 7, "c"), get(8, 9, "a")}},
		{"an unknown write that never happened", true, []o{put(1, never, "a"), put(2, 3, "b"), get(4, 5, "b")}},
		{"an unknown delete", true, []o{put(1, 2, "a"), del(3, never), get(4, 5, "a"), get(6, 7, "")}},
		{"a refused write that is there", false, []o{get(1, 2, "a")}},
		{"two that were first", false, []o{pia(1, 2, "a", true), pia(3, 4, "b", true)}},
		{"one that was first", true, []o{pia(1, 4, "a", true), pia(2, 3, "b", false), get(5, 6, "a")}},
		{"an unseen write that was first", true, []o{pia(1, never, "a", false), pia(2, 3, "b", false), get(4, 5, "a")}},
		{"nobody was first", false, []o{pia(1, 2, "a", false)}},
		{"an unseen put before a put-if-absent", true, []o{put(1, never, "x"), pia(2, 3, "a", false), del(4, 5), get(6, 7, "")}},
	} {
		h := newHistory()
		for i, op := range c.ops {
			h.ops["k"] = append(h.ops["k"], porcupine.Operation{ClientId: i, Input: op.in, Output: op.out, Call: op.call, Return: op.end})
		}
		if v := h.check(); (len(v.illegal) == 0) != c.legal || v.undecided > 0 {
			t.Errorf("%s: %+v, want legal: %v\n%s", c.name, v, c.legal, h.text("k"))
		}
	}
	ttl := func(call, end int64, v string) o {
		return o{call, end, input{"put ttl", v}, output{unknown: end == never}}
	}
	piaTTL := func(call, end int64, v string, in bool) o {
		return o{call, end, input{"put if absent ttl", v}, output{inserted: in, unknown: end == never}}
	}
	for _, c := range []struct {
		name  string
		legal bool
		ops   []o
	}{
		{"a value that is over", true, []o{ttl(1, 2, "a"), get(3, 4, "a"), get(5, 6, "")}},
		{"one that comes back", false, []o{ttl(1, 2, "a"), get(3, 4, ""), get(5, 6, "a")}},
		{"one that comes back for a put-if-absent", false, []o{ttl(1, 2, "a"), get(3, 4, ""), pia(5, 6, "b", false)}},
		{"an older one comes back", false, []o{put(1, 2, "a"), ttl(3, 4, "b"), get(5, 6, "a")}},
		{"one that lasts is over", false, []o{ttl(1, 2, "a"), put(3, 4, "b"), get(5, 6, "")}},
		{"a put-if-absent after one that is over", true, []o{ttl(1, 2, "a"), pia(3, 4, "b", true), get(5, 6, "b")}},
		{"a put-if-absent before", true, []o{ttl(1, 2, "a"), piaTTL(3, 4, "b", false), get(5, 6, "a"), get(7, 8, "")}},
		{"an unknown one explains an absent key", true, []o{put(1, 2, "a"), ttl(3, never, "b"), get(5, 6, "a"), get(7, 8, "")}},
		{"an unknown put-if-absent after one that is over", true, []o{ttl(1, 2, "a"), piaTTL(3, never, "b", false), get(5, 6, "b"), get(7, 8, "")}},
	} {
		h := newHistory()
		for i, op := range c.ops {
			h.ops["e/k"] = append(h.ops["e/k"], porcupine.Operation{ClientId: i, Input: op.in, Output: op.out, Call: op.call, Return: op.end})
		}
		if v := h.check(); (len(v.illegal) == 0) != c.legal || v.undecided > 0 {
			t.Errorf("%s: %+v, want legal: %v\n%s", c.name, v, c.legal, h.text("e/k"))
		}
	}
	type p = slotOutput
	set := func(call, end int64, slot int, v string) porcupine.Operation {
		return porcupine.Operation{Input: slotInput{"set", [2]int{slot}, v}, Output: p{unknown: end == never}, Call: call, Return: end}
	}
	setTTL := func(call, end int64, slot int, v string) porcupine.Operation {
		return porcupine.Operation{Input: slotInput{"set ttl", [2]int{slot}, v}, Output: p{unknown: end == never}, Call: call, Return: end}
	}
	txn := func(call, end int64, kind, value, read string) porcupine.Operation {
		return porcupine.Operation{Input: slotInput{kind, [2]int{0, 1}, value}, Output: p{read, end == never}, Call: call, Return: end}
	}
	for _, c := range []struct {
		name  string
		legal bool
		ops   []porcupine.Operation
	}{
		{"a swap", true, []porcupine.Operation{set(1, 2, 0, "a"), txn(3, 4, "swap", "", "a,"), txn(5, 6, "see", "", ",a,,")}},
		{"a swap of half", false, []porcupine.Operation{set(1, 2, 0, "a"), txn(3, 4, "swap", "", "a,"), txn(5, 6, "see", "", "a,a,,")}},
		{"a swap of what was there before", false, []porcupine.Operation{set(1, 2, 0, "a"), set(3, 4, 0, "b"), txn(5, 6, "swap", "", "a,")}},
		{"a lost update", false, []porcupine.Operation{txn(1, 4, "fill", "a", ",,,"), txn(2, 3, "fill", "b", ",,,")}},
		{"two that fill", true, []porcupine.Operation{txn(1, 4, "fill", "a", "b,,,"), txn(2, 3, "fill", "b", ",,,")}},
		{"an unknown one that happened", true, []porcupine.Operation{txn(1, never, "fill", "a", ""), txn(2, 3, "see", "", ",,,"), txn(4, 5, "see", "", "a,,,")}},
		{"an unknown one that happened twice", false, []porcupine.Operation{txn(1, never, "fill", "a", ""), txn(4, 5, "see", "", "a,a,,")}},
		{"one that is over", true, []porcupine.Operation{setTTL(1, 2, 0, "a"), txn(3, 4, "swap", "", ","), txn(5, 6, "see", "", ",,,")}},
		{"one that is put without a time", false, []porcupine.Operation{setTTL(1, 2, 0, "a"), txn(3, 4, "swap", "", "a,"), txn(5, 6, "see", "", ",,,")}},
		{"one that is over and comes back", false, []porcupine.Operation{setTTL(1, 2, 0, "a"), txn(3, 4, "swap", "", ","), txn(5, 6, "see", "", "a,,,")}},
		{"an unknown swap of one that is over", true, []porcupine.Operation{setTTL(1, 2, 0, "a"), txn(3, never, "swap", "", ""), txn(5, 6, "see", "", ",a,,"), txn(7, 8, "see", "", ",a,,")}},
		{"a filled one that is over", true, []porcupine.Operation{setTTL(1, 2, 0, "a"), txn(3, 4, "fill", "b", "a,,,"), txn(5, 6, "see", "", ",b,,")}},
	} {
		h := newHistory()
		for i := range c.ops {
			c.ops[i].ClientId = i
		}
		key := slotPrefix + "k" + expiringSlots
		if h.ops[key] = c.ops; (len(h.check().illegal) == 0) != c.legal {
			t.Errorf("%s: want legal: %v\n%s", c.name, c.legal, h.text(key))
		}
	}
}
