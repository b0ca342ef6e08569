package shale

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
)

// A metaOp is one operation of a list: what it is, in words, and how it is
// done. Its arguments were chosen when the list was made, so every run does the
// same.
type metaOp struct {
	kind, args string
	do         func(r *metaRun) (answer string)
}

// metaSlots is how many snapshots, and how many iterators, may be open at once.
const metaSlots = 4

// A metaMaker makes a list of operations. It knows which keys were written and
// which slots are in use, but nothing of any answer.
type metaMaker struct {
	*rand.Rand
	ops       []metaOp
	written   []string
	often     string // the key of the moment, which many operations are about
	isWritten map[string]bool
	serial    int // makes values unique
	copies    int
	iterators [metaSlots]bool
	snapshots [metaSlots]bool

	asked, known int // keys asked for, and those of them written before
}

// metaKeys are those of the model test and some long ones.
var metaKeys = func() []string {
	keys := append([]string{}, modelKeys...)
	for _, n := range []int{255, 256, 1000, 5000} {
		keys = append(keys, strings.Repeat("L", n), strings.Repeat("L", n-1)+"\x00", strings.Repeat("L", n-1)+"\xff")
	}
	return append(keys, strings.Repeat("\xff", 700), strings.Repeat("\x00", 700), strings.Repeat("M", MaxKeySize))
}()

// newMetaList returns the list of a seed: about n operations.
func newMetaList(seed uint64, n int) *metaMaker {
	m := &metaMaker{Rand: rand.New(rand.NewPCG(seed, 0)), isWritten: make(map[string]bool)}
	m.written, m.isWritten[""] = []string{""}, true // the first that is put
	kinds := m.kinds()
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	m.put(m.often)
	for range 10 {
		m.fill() // an empty store would be asked in vain, and has no levels
	}
	for len(m.ops) < n {
		at := m.IntN(sum)
		for _, k := range kinds {
			if at -= k.weight; at < 0 {
				k.add()
				break
			}
		}
	}
	m.add("verify", "", func(r *metaRun) string { return errText(r.db.Verify(context.Background())) })
	m.addScan(-1, Range{})
	m.reopen()
	m.addScan(-1, Range{})
	return m
}

type metaKind struct {
	weight int
	add    func()
}

func (m *metaMaker) kinds() []metaKind {
	return []metaKind{
		{16, func() { m.put(m.puts()) }}, {8, m.delete}, {10, m.batch}, {5, m.fill}, {5, m.ingest}, {8, m.putIfAbsent}, {2, m.refused},
		{30, m.lookup}, {8, m.getMany}, {14, m.scan},
		{5, m.snapshot}, {5, m.iterator}, {30, m.move},
		{1, m.sync}, {5, m.flush}, {4, m.compact}, {2, m.checkpoint}, {2, m.reopen}, {1, m.readOnly}, {1, m.verify}, {2, m.rebuildFilters},
	}
}

func (m *metaMaker) add(kind, args string, do func(r *metaRun) string) {
	m.ops = append(m.ops, metaOp{kind, args, do})
}

// anyKey returns a key of the list of keys, or one beside it.
func (m *metaMaker) anyKey() string {
	key := metaKeys[m.IntN(len(metaKeys))]
	switch m.IntN(8) {
	case 0:
		if len(key) < MaxKeySize {
			key += "\x00"
		}
	case 1:
		key = key[:m.IntN(len(key)+1)]
	}
	return key
}

// someKey returns a key, mostly one that was put before.
func (m *metaMaker) someKey() string {
	switch m.IntN(60) {
	case 0:
		m.often = m.written[m.IntN(len(m.written))]
	case 1, 2, 3, 4, 5, 6:
		return m.often
	case 7, 8:
		if len(m.often) < MaxKeySize {
			return m.often + "\x00"
		}
	}
	if m.IntN(10) < 7 {
		return m.written[m.IntN(len(m.written))]
	}
	return m.anyKey()
}

// asks returns a key to ask for.
func (m *metaMaker) asks() string {
	key := m.someKey()
	m.asked++
	if m.isWritten[key] {
		m.known++
	}
	return key
}

// puts returns a key to put.
func (m *metaMaker) puts() string {
	key := m.someKey()
	if !m.isWritten[key] {
		m.isWritten[key] = true
		m.written = append(m.written, key)
	}
	return key
}

// value makes a value that no other write has, of which half is random.
func (m *metaMaker) value() []byte {
	m.serial++
	if m.IntN(20) == 0 {
		return []byte{}
	}
	value := fmt.Appendf(nil, "%d.", m.serial)
	size := []int{0, 10, 100, 300, 6000}[min(m.IntN(50)/12, 4)]
	for len(value) < size {
		if len(value)%64 < 32 {
			value = append(value, byte(m.Uint32()))
		} else {
			value = append(value, '.')
		}
	}
	return value
}

func (m *metaMaker) put(key string) {
	value := m.value()
	m.add("put", showKey(key)+" "+showBytes(value), func(r *metaRun) string { return errText(r.db.Put([]byte(key), value)) })
}

func (m *metaMaker) delete() {
	key := m.someKey()
	m.add("delete", showKey(key), func(r *metaRun) string { return errText(r.db.Delete([]byte(key))) })
}

func (m *metaMaker) putIfAbsent() {
	key, value := m.puts(), m.value()
	m.add("putIfAbsent", showKey(key)+" "+showBytes(value), func(r *metaRun) string {
		inserted, err := r.db.PutIfAbsent([]byte(key), value)
		return fmt.Sprint(inserted, " ", errText(err))
	})
}

func (m *metaMaker) batch() {
	var h history
	var args strings.Builder
	h = append(h, nil)
	for range m.IntN(16) {
		op := Op{Kind: OpDelete, Key: []byte(m.someKey())}
		if m.IntN(4) > 0 {
			op = Op{OpPut, []byte(m.puts()), m.value()}
		}
		h[0] = append(h[0], op)
		fmt.Fprintf(&args, "%v %s %s, ", op.Kind, showBytes(op.Key), showBytes(op.Value))
	}
	durability := Durability(m.IntN(3))
	m.add("batch", args.String(), func(r *metaRun) string {
		return errText(r.db.Write(context.Background(), h.batch(0, durability)))
	})
}

// fill writes many keys, so that memtables fill and levels grow, or mostly one,
// for iterators to step over.
func (m *metaMaker) fill() {
	var keys []string
	var values [][]byte
	again := m.IntN(4) == 0 && len(m.ops) > 0
	for range 10 + m.IntN(50) {
		key := m.puts()
		if again && m.IntN(4) > 0 {
			key = m.often
		}
		keys, values = append(keys, key), append(values, m.value())
	}
	m.add("fill", fmt.Sprintf("%d from %s on", len(keys), showKey(keys[0])), func(r *metaRun) string {
		for i, key := range keys {
			if err := r.db.Put([]byte(key), values[i]); err != nil {
				return err.Error()
			}
		}
		return "ok"
	})
}

// ingest writes sorted keys at once, from a small part of them all or from anywhere;
// now and then one of them is out of order.
func (m *metaMaker) ingest() {
	var keys []string
	first := m.someKey()
	for range m.IntN(40) {
		key := m.puts()
		if m.IntN(2) == 0 && len(first) < MaxKeySize-2 {
			key = fmt.Sprintf("%s%02d", first, m.IntN(100))
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) > 1 && m.IntN(8) == 0 {
		at := m.IntN(len(keys) - 1)
		keys[at], keys[at+1] = keys[at+1], keys[at]
	}
	values := make([][]byte, len(keys))
	for i := range values {
		values[i] = m.value()
	}
	m.add("ingest", fmt.Sprintf("%d: %.200q", len(keys), keys), func(r *metaRun) string {
		return errText(r.db.Ingest(context.Background(), func(yield func([]byte, []byte) bool) {
			for i, key := range keys {
				if !yield([]byte(key), values[i]) {
					return
				}
			}
		}))
	})
}

// refused is a write that is refused and changes nothing.
func (m *metaMaker) refused() {
	key := m.someKey()
	switch m.IntN(3) {
	case 0:
		m.add("refused", "large key", func(r *metaRun) string {
			_, err := r.db.PutIfAbsent(make([]byte, MaxKeySize+1), nil)
			return errText(errors.Join(err, r.db.Put(make([]byte, MaxKeySize+1), nil), r.db.Delete(make([]byte, MaxKeySize+1))))
		})
	case 1:
		m.add("refused", "no time "+showKey(key), func(r *metaRun) string {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			var b Batch
			_ = b.Delete([]byte(key)) // far below every limit
			return errText(r.db.Write(ctx, &b))
		})
	default:
		m.add("refused", "second opening", func(r *metaRun) string {
			_, err := Open("db", &Options{FS: r.mem})
			return errText(err)
		})
	}
}

// showKey and showBytes show bytes briefly, but so that different ones look
// different.
func showKey(key string) string { return showBytes([]byte(key)) }

func showBytes(b []byte) string {
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

func errText(err error) string {
	if err == nil {
		return "ok"
	}
	return "error: " + err.Error()
}
