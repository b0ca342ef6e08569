package typed

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/shaledb/shale"
)

// The value of a map's key of statesArea is a byte, and the names of the indexes that the store has of the map, sorted,
// each as a part. Without the key there are none.
const (
	building = 0x00 // they may lack entries
	complete = 0x01
)

// stateOf returns what a store says that has these indexes.
func stateOf[K, V any](state byte, indexes []indexed[K, V]) []byte {
	s := []byte{state}
	for _, x := range indexes {
		s, _ = String.append(s, x.title(), true) // no string is refused
	}
	return s
}

// stored returns what the store says about the indexes of the map.
func (m *Map[K, V]) stored(r shale.Reader) ([]byte, error) {
	if m.mistake != nil {
		return nil, m.mistake
	}
	s, err := r.Get(m.state)
	if err != nil && !errors.Is(err, shale.ErrNotFound) {
		return nil, m.wrap(err)
	}
	return s, nil
}

// known returns an error unless the store has just those indexes of the map that the program has, and reports whether
// they are complete. If the map is new, the store learns which there are.
func (m *Map[K, V]) known(tx transaction) (isComplete bool, err error) {
	s, err := m.stored(tx)
	switch {
	case err != nil:
		return false, err
	case bytes.Equal(s, m.complete):
		return true, nil
	case bytes.Equal(s, m.building):
		return false, nil
	case len(s) > 0:
		return false, m.notBuilt(s)
	}
	entries, err := m.next(tx, m.entries, nil, 1)
	if err == nil && len(entries) > 0 {
		err = m.notBuilt(s)
	}
	if err != nil {
		return false, err
	}
	return true, m.store(tx, m.state, m.complete)
}

// notBuilt returns the error for a store that says s about the indexes of the map.
func (m *Map[K, V]) notBuilt(s []byte) error {
	if bytes.Equal(s, m.building) {
		return m.wrap(fmt.Errorf("%w: Build has not come to its end", ErrNotBuilt))
	}
	return m.wrap(fmt.Errorf("%w: the store has %s, the program %s: call Build", ErrNotBuilt, titles(s), titles(m.complete)))
}

// titles returns the names of the indexes in what a store says, for errors.
func titles(s []byte) string {
	if len(s) <= 1 {
		return "none"
	}
	end := []byte{escape, terminator}
	return fmt.Sprintf("%q", bytes.Split(bytes.TrimSuffix(s[1:], end), end))
}

// Build makes the indexes of the map in the store those of the program. If they are that already, it reads one key, so
// programs call it when they start. Otherwise it removes what the indexes have and fills them again, in many small
// transactions. It may be stopped, and the next call goes on. Meanwhile the map can be written and read, but its
// indexes answer [ErrNotBuilt], and so does a Put that gives an entry another value in a unique index.
func (m *Map[K, V]) Build(ctx context.Context, db *shale.DB) error {
	for done := false; !done; {
		err := db.Update(ctx, func(tx *shale.Txn) (err error) {
			done, err = m.BuildStep(tx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Reset says that the indexes of the map are not complete, so that Build makes them again. It is for what Check finds. w
// must be a transaction.
func (m *Map[K, V]) Reset(w shale.Writer) error {
	tx, is := inTxn(w)
	if !is {
		return m.wrap(ErrNoTxn)
	}
	if err := m.store(tx, m.state, m.building); err != nil {
		return err
	}
	return m.store(tx, m.cursor, m.place(indexArea))
}

// buildStep is how many keys a step of Build looks at.
const buildStep = 512

// BuildStep is a part of Build, for a map in a Sub, or where Update is not DB's. It is called until it is done, each time
// in another transaction.
func (m *Map[K, V]) BuildStep(w shale.Writer) (done bool, err error) {
	tx, is := inTxn(w)
	if !is {
		return false, m.wrap(ErrNoTxn)
	}
	s, err := m.stored(tx)
	if err != nil || bytes.Equal(s, m.complete) {
		return err == nil, err
	}
	// The last key that was looked at: first those of indexes, which go, and then those of entries.
	last, err := tx.Get(m.cursor)
	if err != nil && !errors.Is(err, shale.ErrNotFound) {
		return false, m.wrap(err)
	}
	area, filling := m.place(indexArea), bytes.HasPrefix(last, m.entries)
	if !bytes.Equal(s, m.building) || !filling && !bytes.HasPrefix(last, area) {
		return false, m.Reset(tx)
	}
	if filling {
		area = m.entries
	}
	next, err := m.next(tx, area, last, buildStep)
	for i := 0; err == nil && i < len(next); i++ {
		if filling {
			err = m.enter(tx, next[i])
		} else {
			err = m.store(tx, next[i].Key, nil)
		}
	}
	switch {
	case err != nil:
		return false, err
	case len(next) == buildStep:
		return false, m.store(tx, m.cursor, next[buildStep-1].Key)
	case !filling:
		return false, m.store(tx, m.cursor, m.entries)
	}
	if err := m.store(tx, m.cursor, nil); err != nil {
		return false, err
	}
	return true, m.store(tx, m.state, m.complete)
}

// store sets a key, or deletes it if the value is empty.
func (m *Map[K, V]) store(w shale.Writer, key, value []byte) (err error) {
	if len(value) > 0 {
		err = w.Put(key, value)
	} else {
		err = w.Delete(key)
	}
	if err != nil {
		return m.wrap(err)
	}
	return nil
}

// next returns the next entries of an area behind a key, n at most.
func (m *Map[K, V]) next(r shale.Reader, area, last []byte, n int) (next []shale.Entry, err error) {
	in := shale.Prefix(area)
	in.Limit = n
	if bytes.Compare(last, in.Lower) >= 0 {
		in.Lower = append(bytes.Clone(last), 0)
	}
	for e, err := range r.Scan(in) {
		if err != nil {
			return nil, m.wrap(err)
		}
		next = append(next, e.Clone())
	}
	return next, nil
}

// enter puts one entry of the map into the indexes.
func (m *Map[K, V]) enter(tx transaction, e shale.Entry) error {
	key, value, err := m.decode(e, false)
	if err != nil {
		return err
	}
	for _, x := range m.indexes {
		all, err := x.of(e.Key[len(m.entries):], value)
		if err != nil {
			return m.failed(key, err)
		}
		for _, k := range all {
			if err := m.single(tx, x, k, e.Key, key); err != nil {
				return err
			}
			if err := tx.Put(k, nil); err != nil {
				return m.failed(key, err)
			}
		}
	}
	return nil
}
