package command

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// A deduper prints the lines that are not in its store, and adds them to the store. It prints
// lines first and adds them after that. So no line is lost, however the process ends.
type deduper struct {
	db   *shale.DB
	hash bool // keys are hashes of lines
	out  lineWriter
	sync func() error // makes the output durable; nil: --sync was not given

	lines, fresh int // counts

	// For one batch; the memory is reused.
	order  []sortKey
	keys   lineKeys
	isNew  []bool
	maybes []uint32
	lookup [][]byte
	batch  shale.Batch
}

// A sortKey represents a line while lines are sorted.
type sortKey struct {
	prefix uint64 // the first bytes of its key
	i      uint32
}

const (
	// lookupMany is the number of keys that are looked up at a time. The work space of GetMany
	// is ten times as large as typical keys.
	lookupMany = 4096
	// writeBytes is the approximate size of a batch of the store.
	writeBytes = 256 << 10
)

// reserve allocates memory for the largest possible batch.
func (d *deduper) reserve(limits feedLimits) {
	n := limits.lines + feedRead
	d.order, d.isNew, d.maybes = make([]sortKey, 0, n), make([]bool, 0, n), make([]uint32, 0, n)
	if d.hash {
		d.keys.hashes = make([]byte, 0, n*hashSize)
	}
}

// add handles a batch of lines.
func (d *deduper) add(b *lineBatch) error {
	d.keys.take(b, d.hash)
	d.isNew = slices.Grow(d.isNew[:0], b.len())[:b.len()]
	clear(d.isNew)
	d.sort(b.len())
	if err := d.findNew(); err != nil {
		return err
	}
	d.lines += b.len()
	for i, isNew := range d.isNew {
		if isNew {
			d.fresh++
			if err := d.out.add(b.line(i)); err != nil {
				return err
			}
		}
	}
	if err := d.out.flush(); err != nil {
		return err
	}
	if d.sync != nil {
		if err := d.sync(); err != nil {
			return fmt.Errorf("sync the output: %w", err)
		}
	}
	return d.remember()
}

// sort sorts the lines by their keys, and lines with equal keys by their places.
func (d *deduper) sort(n int) {
	d.order = d.order[:0]
	for i := range n {
		d.order = append(d.order, sortKey{prefixOf(d.keys.key(i)), uint32(i)})
	}
	slices.SortFunc(d.order, func(x, y sortKey) int {
		if x.prefix != y.prefix {
			return cmp.Compare(x.prefix, y.prefix)
		}
		if c := bytes.Compare(d.keys.key(int(x.i)), d.keys.key(int(y.i))); c != 0 {
			return c
		}
		return cmp.Compare(x.i, y.i)
	})
}

// prefixOf returns the first eight bytes of key as a number. If the numbers of two keys
// differ, the keys have the same order as the numbers.
func prefixOf(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// findNew sets isNew for the first line of each key that the store does not have. A key that
// all filters deny costs no read. The others are looked up in the order of keys, so that each
// block is read only once for a batch.
func (d *deduper) findNew() error {
	d.maybes = d.maybes[:0]
	for at, o := range d.order {
		key := d.keys.key(int(o.i))
		if at > 0 && o.prefix == d.order[at-1].prefix && bytes.Equal(key, d.keys.key(int(d.order[at-1].i))) {
			continue
		}
		if d.db.MayContain(key) {
			d.maybes = append(d.maybes, o.i)
		} else {
			d.isNew[o.i] = true
		}
	}
	for some := range slices.Chunk(d.maybes, lookupMany) {
		d.lookup = d.lookup[:0]
		for _, i := range some {
			d.lookup = append(d.lookup, d.keys.key(int(i)))
		}
		err := d.db.GetMany(d.lookup, func(k int, _ []byte, known bool) error {
			d.isNew[some[k]] = !known
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// remember writes the new keys to the store. Their lines have been printed already, so an
// interrupt does not stop it.
func (d *deduper) remember() error {
	d.batch.Reset()
	for _, o := range d.order {
		if !d.isNew[o.i] {
			continue
		}
		if err := d.batch.Put(d.keys.key(int(o.i)), nil); err != nil {
			return err
		}
		if d.batch.Size() >= writeBytes {
			if err := d.write(); err != nil {
				return err
			}
		}
	}
	if d.batch.Len() > 0 {
		if err := d.write(); err != nil {
			return err
		}
	}
	if d.sync != nil {
		return d.db.Sync()
	}
	return nil
}

func (d *deduper) write() error {
	err := d.db.Write(context.Background(), &d.batch)
	d.batch.Reset()
	return err
}

// lineKeys are the keys of a batch of lines.
type lineKeys struct {
	lines  *lineBatch
	hashes []byte // hashSize bytes for each line, or empty
	odd    map[int][]byte
}

const (
	hashSize = 16
	// reserved is the prefix of keys that are not lines. The key reservedMode says what the
	// other keys are. reserved and the SHA-256 of a line are the key of a line that can't be
	// a key itself, because it is too long or begins with reserved.
	reserved     = "\x00shale dedup\x00"
	reservedMode = reserved + "mode"
	modeHash     = "sha256-128"
)

// take makes the keys of the lines of b.
func (k *lineKeys) take(b *lineBatch, hash bool) {
	k.lines, k.hashes, k.odd = b, k.hashes[:0], nil
	for i := range b.len() {
		text := b.text(i)
		switch {
		case hash:
			sum := sha256.Sum256(text)
			k.hashes = append(k.hashes, sum[:hashSize]...)
		case isOdd(text):
			if k.odd == nil {
				k.odd = map[int][]byte{}
			}
			k.odd[i] = oddKey(text)
		}
	}
}

// isOdd reports whether a line can't be a key itself.
func isOdd(text []byte) bool {
	return len(text) > shale.MaxKeySize || len(text) >= len(reserved) && string(text[:len(reserved)]) == reserved
}

// oddKey returns the key of a line for which isOdd is true.
func oddKey(text []byte) []byte {
	sum := sha256.Sum256(text)
	return append([]byte(reserved), sum[:]...)
}

func (k *lineKeys) key(i int) []byte {
	if len(k.hashes) > 0 {
		return k.hashes[i*hashSize:][:hashSize:hashSize]
	}
	if k.odd != nil {
		if key := k.odd[i]; key != nil {
			return key
		}
	}
	return k.lines.text(i)
}

// hashesLines reports whether the keys of a store are hashes of lines.
func hashesLines(db *shale.DB) (bool, error) {
	mode, err := db.Get([]byte(reservedMode))
	switch {
	case errors.Is(err, shale.ErrNotFound):
		return false, nil
	case err == nil && string(mode) != modeHash:
		err = fmt.Errorf("the store remembers lines by %s, which this program does not know", output.Quote(mode))
	}
	return true, err
}

// checkMode returns an error if the store has lines as keys and this run needs hashes, or the
// other way round.
func (d *deduper) checkMode() error {
	hashes, err := hashesLines(d.db)
	switch {
	case err != nil || hashes && d.hash:
		return err
	case hashes:
		return errors.New("the store has hashes of lines, not lines; give --hash")
	case !d.hash:
		return nil
	}
	for _, err := range d.db.Scan(shale.Range{Limit: 1}) {
		if err != nil {
			return err
		}
		return errors.New("the store has whole lines, or other keys; for --hash, name a new store")
	}
	return d.db.Put([]byte(reservedMode), []byte(modeHash))
}

// report prints totals.
func (d *deduper) report(w io.Writer, took time.Duration, skipped, longest int) {
	tooLong := ""
	if skipped > 0 {
		tooLong = fmt.Sprintf(", %s more skipped, which are longer than %s", output.Number(skipped), base.FormatBytes(int64(longest)))
	}
	fmt.Fprintf(w, "%s: %s new, %s seen before%s; %v, %s lines/s\n", output.Plural(d.lines, "line"), output.Number(d.fresh),
		output.Number(d.lines-d.fresh), tooLong, output.RoundTime(took), output.Rate(d.lines, took))
}
