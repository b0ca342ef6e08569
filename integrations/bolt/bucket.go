package bbolt

import (
	"slices"

	"go.etcd.io/bbolt/errors"

	"github.com/shaledb/shale"
)

// This file has Bucket.

// The limits of a key and of a value, in bytes.
const (
	MaxKeySize   = 32768
	MaxValueSize = shale.MaxValueSize
)

// A Bucket has keys with values, and keys with buckets. It is valid until its transaction ends.
type Bucket struct {
	// FillPercent has no effect.
	FillPercent float64

	tx   *Tx
	in   *Bucket // the bucket that it is in; nil: it is the root
	name []byte
	header
	deleted bool
	buckets map[string]*Bucket // those in it that a transaction that writes has met: there is one Bucket for each
}

// Tx returns the transaction.
func (b *Bucket) Tx() *Tx { return b.tx }

// Writable reports whether the transaction may write.
func (b *Bucket) Writable() bool { return b.tx.writable }

// key returns a key as the store has it. In a transaction that writes it is valid until the next call.
func (b *Bucket) key(part byte, key []byte) []byte {
	dst := b.tx.key[:0]
	if !b.tx.writable {
		dst = make([]byte, 0, 10+len(key))
	}
	dst = append(append(appendNumber(dst, b.number), part), key...)
	if b.tx.writable {
		b.tx.key = dst
	}
	return dst
}

// valid reports whether something may be stored under key. Nothing else is ever found.
func valid(key []byte) bool { return len(key) > 0 && len(key) <= MaxKeySize }

// Get returns the value of key, or nil if the key is not there or has a bucket.
func (b *Bucket) Get(key []byte) []byte {
	b.tx.mustBeOpen()
	if !valid(key) || b.deleted {
		return nil
	}
	return b.tx.get("Bucket.Get", b.key(partValues, key))
}

// Bucket returns the bucket of that name, or nil if it is not there.
func (b *Bucket) Bucket(name []byte) *Bucket {
	b.tx.mustBeOpen()
	if !b.parent || !valid(name) || b.deleted {
		return nil
	}
	if child := b.buckets[string(name)]; child != nil {
		return child
	}
	value := b.tx.get("Bucket.Bucket", b.key(partBuckets, name))
	if value == nil {
		return nil
	}
	h, err := decodeHeader(value)
	if err != nil {
		b.tx.fail("Bucket.Bucket", err)
	}
	return b.child(name, h)
}

// child returns a bucket in b.
func (b *Bucket) child(name []byte, h header) *Bucket {
	c := &Bucket{tx: b.tx, in: b, name: slices.Clone(name), header: h, FillPercent: DefaultFillPercent}
	if b.tx.writable {
		b.keep(c)
	}
	return c
}

// keep makes Bucket find c, which is in b, again.
func (b *Bucket) keep(c *Bucket) {
	if b.buckets == nil {
		b.buckets = make(map[string]*Bucket)
	}
	b.buckets[string(c.name)] = c
}

// mayWrite returns why the bucket takes no writes, or nil.
func (b *Bucket) mayWrite() error {
	if err := b.tx.mayWrite(); err != nil {
		return err
	}
	if b.deleted {
		return errors.ErrBucketNotFound
	}
	return nil
}

// changed takes note that the header has changed.
func (b *Bucket) changed() { b.tx.dirty[b] = struct{}{} }

// CreateBucket creates a bucket in b. It fails if there is one of that name, or a value.
func (b *Bucket) CreateBucket(name []byte) (*Bucket, error) {
	c, created, err := b.create(name)
	if err == nil && !created {
		return nil, errors.ErrBucketExists
	}
	return c, err
}

// CreateBucketIfNotExists returns the bucket of that name, and creates it if it is not there. It fails if there is a value.
func (b *Bucket) CreateBucketIfNotExists(name []byte) (*Bucket, error) {
	c, _, err := b.create(name)
	return c, err
}

func (b *Bucket) create(name []byte) (c *Bucket, created bool, err error) {
	if err := b.mayWrite(); err != nil {
		return nil, false, err
	}
	switch {
	case len(name) == 0:
		return nil, false, errors.ErrBucketNameRequired
	case !valid(name):
		return nil, false, errors.ErrKeyTooLarge
	}
	if c := b.Bucket(name); c != nil {
		return c, false, nil
	}
	if b.tx.has("Bucket.CreateBucket", b.key(partValues, name)) {
		return nil, false, errors.ErrIncompatibleValue
	}
	h := header{number: b.tx.state.next}
	if err := b.tx.put(b.key(partBuckets, name), h.encode()); err != nil {
		return nil, false, err
	}
	b.tx.state.next++
	if !b.parent {
		b.parent = true
		b.changed()
	}
	return b.child(name, h), true, nil
}

// find returns the bucket of that name, or why there is none.
func (b *Bucket) find(call string, name []byte) (*Bucket, error) {
	c := b.Bucket(name)
	switch {
	case c != nil:
		return c, nil
	case valid(name) && b.tx.has(call, b.key(partValues, name)):
		return nil, errors.ErrIncompatibleValue
	}
	return nil, errors.ErrBucketNotFound
}

// DeleteBucket deletes the bucket of that name, with all that is in it. It takes time in proportion to the number of buckets
// in it, and not of keys.
func (b *Bucket) DeleteBucket(name []byte) error {
	if err := b.mayWrite(); err != nil {
		return err
	}
	c, err := b.find("Bucket.DeleteBucket", name)
	if err != nil {
		return err
	}
	numbers := c.delete(nil)
	slices.Sort(numbers)
	for first, i := 0, 1; i <= len(numbers); i++ {
		if i < len(numbers) && numbers[i] == numbers[i-1]+1 {
			continue
		}
		b.tx.writes++
		lower, upper := appendNumber(nil, numbers[first]), appendNumber(nil, numbers[i-1]+1)
		if err := limited(b.tx.txn.DeleteRange(lower, upper)); err != nil {
			return err
		}
		first = i
	}
	delete(b.buckets, string(name))
	return b.tx.delete(b.key(partBuckets, name))
}

// delete marks b, and all buckets in it, as deleted, and appends their numbers.
func (b *Bucket) delete(numbers []uint64) []uint64 {
	_ = b.ForEachBucket(func(name []byte) error { // nothing in it returns an error
		numbers = b.Bucket(name).delete(numbers)
		return nil
	})
	b.deleted = true
	return append(numbers, b.number)
}

// MoveBucket moves a bucket in b to dst. It takes the same time however large the bucket is.
func (b *Bucket) MoveBucket(name []byte, dst *Bucket) error {
	for _, side := range []*Bucket{b, dst} {
		if err := side.mayWrite(); err != nil {
			return err
		}
	}
	if b.tx != dst.tx {
		return errors.ErrDifferentDB
	}
	c, err := b.find("Bucket.MoveBucket", name)
	if err != nil {
		return err
	}
	for d := dst; d != nil; d = d.in {
		if d == c || d == b && d == dst { // into itself, or to where it is
			return errors.ErrSameBuckets
		}
	}
	switch _, err := dst.find("Bucket.MoveBucket", name); err {
	case nil:
		return errors.ErrBucketExists
	case errors.ErrIncompatibleValue:
		return err
	}
	if err := b.tx.delete(b.key(partBuckets, name)); err != nil {
		return err
	}
	delete(b.buckets, string(name))
	c.in = dst
	dst.keep(c)
	c.changed()
	dst.parent = true
	dst.changed()
	return b.tx.flush() // so that cursors of dst see it
}

// Put sets the value of key.
func (b *Bucket) Put(key, value []byte) error {
	if err := b.mayWrite(); err != nil {
		return err
	}
	switch {
	case len(key) == 0:
		return errors.ErrKeyRequired
	case !valid(key):
		return errors.ErrKeyTooLarge
	case len(value) > MaxValueSize:
		return errors.ErrValueTooLarge
	case b.hasBucket("Bucket.Put", key):
		return errors.ErrIncompatibleValue
	}
	return b.tx.put(b.key(partValues, key), value)
}

// hasBucket reports whether key has a bucket.
func (b *Bucket) hasBucket(call string, key []byte) bool {
	return b.parent && b.tx.has(call, b.key(partBuckets, key))
}

// Delete removes key. Nothing happens if it is not there. It fails if the key has a bucket.
func (b *Bucket) Delete(key []byte) error {
	switch err := b.mayWrite(); {
	case err != nil:
		return err
	case !valid(key):
		return nil
	case b.hasBucket("Bucket.Delete", key):
		return errors.ErrIncompatibleValue
	}
	return b.tx.delete(b.key(partValues, key))
}

// Sequence returns the sequence of the bucket.
func (b *Bucket) Sequence() uint64 { return b.sequence }

// SetSequence sets the sequence of the bucket.
func (b *Bucket) SetSequence(v uint64) error {
	if err := b.mayWrite(); err != nil {
		return err
	}
	b.sequence = v
	b.changed()
	return nil
}

// NextSequence adds 1 to the sequence of the bucket, and returns it.
func (b *Bucket) NextSequence() (uint64, error) {
	if err := b.SetSequence(b.sequence + 1); err != nil {
		return 0, err
	}
	return b.sequence, nil
}

// Cursor returns a cursor over the bucket, which stands nowhere.
func (b *Bucket) Cursor() *Cursor {
	b.tx.stats.IncCursorCount(1)
	return &Cursor{bucket: b}
}

// ForEach calls fn for each key, in order, with its value, or with nil if it has a bucket. fn's first error ends it.
func (b *Bucket) ForEach(fn func(k, v []byte) error) error {
	if b.tx.db == nil {
		return errors.ErrTxClosed
	}
	c := b.Cursor()
	defer c.close()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}

// ForEachBucket calls fn for each key that has a bucket, in order. fn's first error ends it.
func (b *Bucket) ForEachBucket(fn func(k []byte) error) error {
	if b.tx.db == nil {
		return errors.ErrTxClosed
	}
	if !b.parent {
		return nil
	}
	c := b.Cursor()
	c.bucketsOnly = true
	defer c.close()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		if err := fn(k); err != nil {
			return err
		}
	}
	return nil
}
