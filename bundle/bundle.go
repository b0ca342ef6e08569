package bundle

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/shaledb/shale/bloom"
)

// A Bundle is the filters of a store, as it was at one moment. The zero Bundle
// answers maybe to every key.
type Bundle struct {
	// Constant after Open.
	head    header
	runs    []run
	hashers []bloom.Hasher // the different ones of the filters, at most maxHashers
	tables  int
	keys    uint64
	damaged []Damage
}

// maxHashers is the number of hash functions for which a lookup remembers the hash of its
// key. All filters of a store have the same function, or a few if its options were changed.
const maxHashers = 4

// Open returns the bundle whose bytes are data, all of data. It keeps data and does not
// copy it: filters are probed where they lie, so data must not change while the bundle is
// in use. A probe costs one cache line if data begins at an address that 64 divides. Mapped
// files and large slices of Go do.
//
// The error is [ErrDamaged] or [ErrFormatTooNew]; test for them with errors.Is. A damaged
// filter is no error: see Damaged.
func Open(data []byte) (*Bundle, error) {
	h, err := decodeHeader(data)
	if err != nil {
		return nil, err
	}
	if h.length != uint64(len(data)) {
		return nil, damage("%d bytes, it had %d", len(data), h.length)
	}
	b := &Bundle{head: h}
	dir := data[headerLen : headerLen+int(h.dirLen)]
	if checksum(dir) != h.dirSum {
		return nil, damage("checksum of the directory")
	}
	if uint64(h.runs)*(runLen+tableLen) > uint64(len(dir)) {
		return nil, damage("%d runs in %d bytes", h.runs, len(dir))
	}
	o := opening{b: b, data: data, end: uint64(headerLen + len(dir))}
	b.runs = make([]run, h.runs)
	for i := range b.runs {
		if dir, err = o.run(&b.runs[i], dir); err != nil {
			return nil, err
		}
	}
	if len(dir) > 0 || o.end != h.length {
		return nil, damage("%d bytes behind the directory's last run, %d behind the last filter", len(dir), h.length-o.end)
	}
	return b, nil
}

// An opening is the state of Open. Open decodes the directory from front to back: run
// decodes a run, and table opens the filter of each of its tables.
type opening struct {
	b    *Bundle
	data []byte
	end  uint64 // end of the directory, or of the last filter so far
}

// run decodes the run at the beginning of dir into r, and returns the bytes that follow it.
func (o *opening) run(r *run, dir []byte) (rest []byte, err error) {
	level, n, dir, err := decodeRun(dir)
	if err != nil {
		return nil, err
	}
	r.init(level, n)
	for i := range r.tables {
		var e tableEntry
		if e, dir, err = decodeTable(dir); err != nil {
			return nil, err
		}
		var before []byte
		if i > 0 {
			before = r.tables[i-1].largest
		}
		if err := checkBounds(before, e.smallest, e.largest, i == 0); err != nil {
			return nil, damage("level %d, table %d: %v", level, i, err)
		}
		if err := o.table(&r.tables[i], &e, level); err != nil {
			return nil, err
		}
	}
	r.layOut()
	return dir, nil
}

// table makes t from the entry e. If its filter cannot be used, t has none and
// answers maybe.
func (o *opening) table(t *table, e *tableEntry, level int) error {
	b := o.b
	*t = table{smallest: e.smallest, largest: e.largest, keys: e.keys}
	b.tables++
	b.keys += e.keys
	if e.length == 0 {
		if e.offset != 0 || e.sum != 0 {
			return damage("a filter of no bytes at %d", e.offset)
		}
		return nil
	}
	// Each filter must begin right behind the one before. So no bytes are in two filters,
	// and Open takes no longer than one pass over the file, whatever the directory says.
	if e.offset != aligned(o.end) || e.offset > b.head.length || e.length > b.head.length-e.offset {
		return damage("a filter of %d bytes at %d, behind %d, in %d", e.length, e.offset, o.end, b.head.length)
	}
	o.end = e.offset + e.length
	f, err := openFilter(o.data[e.offset:o.end:o.end], e)
	if err != nil {
		b.damaged = append(b.damaged, Damage{Level: level, Smallest: e.smallest, Largest: e.largest, Offset: int64(e.offset), Err: err})
		return nil
	}
	t.filter, t.hasher = f, b.hasherIndex(f.Hasher())
	return nil
}

// hasherIndex returns the index of h in b.hashers, and adds it if it is new. It
// returns -1 if b.hashers is full.
func (b *Bundle) hasherIndex(h bloom.Hasher) int {
	for i := range b.hashers {
		if b.hashers[i] == h {
			return i
		}
	}
	if len(b.hashers) == maxHashers {
		return -1
	}
	b.hashers = append(b.hashers, h)
	return len(b.hashers) - 1
}

// MayContain reports whether key may have been in the store. False is certain for the state
// that the bundle describes. It allocates nothing.
func (b *Bundle) MayContain(key []byte) bool {
	var h hashes
	for i := range b.runs {
		t := b.runs[i].find(key)
		if t != nil && (t.filter == nil || t.filter.MayContainHash(h.of(b, t, key))) {
			return true
		}
	}
	return b.head.length == 0
}

// hashes are the hashes of one key, by the functions in Bundle.hashers. Each is
// computed when a filter needs it.
type hashes struct {
	known [maxHashers]bool
	hash  [maxHashers]uint64
}

// of returns the hash of key for the filter of t.
func (h *hashes) of(b *Bundle, t *table, key []byte) uint64 {
	i := t.hasher
	if uint(i) >= maxHashers {
		return t.filter.Hasher().Hash(key)
	}
	if !h.known[i] {
		h.known[i], h.hash[i] = true, b.hashers[i].Hash(key)
	}
	return h.hash[i]
}

// A Damage describes a filter that cannot be used. Every key between the bounds, including
// the bounds, is answered with maybe. The caller must not change the bounds.
type Damage struct {
	Level             int
	Smallest, Largest []byte
	Offset            int64 // of the filter in the file, in bytes
	Err               error // bloom.ErrUnknown if this program does not know its kind
}

// Damaged returns the filters that cannot be used, in the order of the file.
func (b *Bundle) Damaged() []Damage { return b.damaged }

// Err returns an error that sums up Damaged, or nil if every filter can be used.
func (b *Bundle) Err() error {
	if len(b.damaged) == 0 {
		return nil
	}
	d := &b.damaged[0]
	return fmt.Errorf("bundle: %d of %d filters can't be used, the first at offset %d, of level %d: %w",
		len(b.damaged), b.tables, d.Offset, d.Level, d.Err)
}

// Seq returns the sequence number of the state that the bundle describes. It answers maybe
// to every key that was in the store then.
func (b *Bundle) Seq() uint64 { return b.head.seq }

// StoreID returns the id of the store.
func (b *Bundle) StoreID() uint64 { return b.head.storeID }

// Created returns when the bundle was made, according to its writer.
func (b *Bundle) Created() time.Time { return time.Unix(b.head.created, 0) }

// Runs returns the number of runs. A lookup asks at most one filter of each.
func (b *Bundle) Runs() int { return len(b.runs) }

// Tables returns the number of tables.
func (b *Bundle) Tables() int { return b.tables }

// Keys returns the sum of the numbers of keys of all tables. A key that is in several
// runs counts in each of them.
func (b *Bundle) Keys() uint64 { return b.keys }

// SizeBytes returns the length of the file.
func (b *Bundle) SizeBytes() int64 { return int64(b.head.length) }

// PredictedFPR returns the share of absent keys for which MayContain is expected to answer
// maybe, if they lie between the stored keys.
func (b *Bundle) PredictedFPR() float64 {
	if b.head.length == 0 {
		return 1
	}
	pass := 1.0 // of all runs
	for i := range b.runs {
		pass *= 1 - b.runs[i].predictedFPR()
	}
	return 1 - pass
}

// String describes the bundle in one line.
func (b Bundle) String() string {
	if b.head.length == 0 {
		return "bundle.Bundle: the zero value, which says maybe to every key"
	}
	return fmt.Sprintf("bundle.Bundle: %d keys of %d tables in %d runs, %d bytes, %.3g %% of absent keys pass",
		b.keys, b.tables, len(b.runs), b.head.length, 100*b.PredictedFPR())
}

// errText is the error of MarshalText and UnmarshalText. Without it, encoders would write
// an empty object for a bundle.
var errText = fmt.Errorf("bundle: a Bundle has no text: %w: keep the bytes that it was opened from", errors.ErrUnsupported)

// MarshalText always returns an error, which is errors.ErrUnsupported. Store the bytes that
// the bundle was opened from instead.
func (b Bundle) MarshalText() ([]byte, error) { return nil, errText }

// UnmarshalText always returns an error: see MarshalText. Open and Read make bundles.
func (b *Bundle) UnmarshalText([]byte) error { return errText }

// predictedFPR returns the mean rate of the tables, weighted by their keys, because a
// key is asked of one of them.
func (r *run) predictedFPR() float64 {
	var keys, expected float64
	for i := range r.tables {
		t := &r.tables[i]
		n, p := math.Max(float64(t.keys), 1), 1.0
		if t.filter != nil {
			p = t.filter.FPR()
		}
		keys += n
		expected += n * p
	}
	return expected / keys
}
