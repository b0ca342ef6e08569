package shale

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// This file holds the operations that read, and those on the store as a whole.

// reader returns the store, or the snapshot in a slot.
func (r *metaRun) reader(slot int) Reader {
	if slot < 0 {
		return r.db
	}
	return r.snapshots[slot]
}

// from chooses the store or an open snapshot.
func (m *metaMaker) from() (slot int) {
	if slot = m.IntN(2 * metaSlots); slot < metaSlots && m.snapshots[slot] {
		return slot
	}
	return -1
}

func showFrom(slot int) string {
	if slot < 0 {
		return ""
	}
	return fmt.Sprintf("snapshot %d: ", slot)
}

// lookup asks for one key in every way there is.
func (m *metaMaker) lookup() {
	from, asked := m.from(), m.asks()
	key := []byte(asked)
	m.add("lookup", showFrom(from)+showKey(asked), func(r *metaRun) string {
		reader := r.reader(from)
		got, err := reader.Get(key)
		has, hasErr := reader.Has(key)
		appended, appendErr := reader.AppendValue([]byte("x"), key)
		viewed := "nothing"
		viewErr := reader.ViewValue(key, func(v []byte) error {
			viewed = showBytes(v)
			return nil
		})
		answer := fmt.Sprintf("Get %s %s, Has %v %s, AppendValue %s %s, ViewValue %s %s", showBytes(got), errText(err), has, errText(hasErr),
			showBytes(appended), errText(appendErr), viewed, errText(viewErr))
		if from < 0 {
			x, err := r.db.Explain(key)
			answer += fmt.Sprintf(", Explain %v %s %s", x.Found, showBytes(x.Value), errText(err))
			if has && !r.db.MayContain(key) {
				answer += ", MayContain false"
			}
		}
		return answer
	})
}

func (m *metaMaker) getMany() {
	var keys [][]byte
	var args strings.Builder
	for range m.IntN(24) {
		key := m.asks()
		keys = append(keys, []byte(key))
		args.WriteString(showKey(key) + " ")
	}
	stop := m.IntN(100) // mostly beyond the keys
	enough := errors.New("enough")
	m.add("getMany", args.String(), func(r *metaRun) string {
		var answer strings.Builder
		err := r.db.GetMany(keys, func(i int, value []byte, found bool) error {
			fmt.Fprintf(&answer, "%d %v %s, ", i, found, showBytes(value))
			if i == stop {
				return enough
			}
			return nil
		})
		return answer.String() + errText(err)
	})
}

// bounds chooses a range.
func (m *metaMaker) bounds() Range {
	var rng Range
	switch m.IntN(6) {
	case 0:
	case 1:
		rng.Lower = []byte(m.someKey())
	case 2:
		rng.Upper = []byte(m.someKey())
	case 3:
		key := m.someKey()
		rng = Prefix(key[:m.IntN(len(key)+1)])
	default:
		rng.Lower, rng.Upper = []byte(m.someKey()), []byte(m.someKey())
		if m.IntN(8) > 0 && string(rng.Lower) > string(rng.Upper) {
			rng.Lower, rng.Upper = rng.Upper, rng.Lower
		}
	}
	rng.KeysOnly = m.IntN(4) == 0
	return rng
}

func showRange(rng Range) string {
	return fmt.Sprintf("[%s, %s) reverse %v, keys only %v, limit %d", showBytes(rng.Lower), showBytes(rng.Upper), rng.Reverse, rng.KeysOnly, rng.Limit)
}

func (m *metaMaker) scan() {
	rng := m.bounds()
	rng.Reverse = m.IntN(2) == 0
	if m.IntN(2) == 0 {
		rng.Limit = m.IntN(20)
	}
	m.addScan(m.from(), rng)
}

func (m *metaMaker) addScan(from int, rng Range) {
	m.add("scan", showFrom(from)+showRange(rng), func(r *metaRun) string { return scanText(r.reader(from), rng) })
}

func scanText(r Reader, rng Range) string {
	var answer strings.Builder
	for e, err := range r.Scan(rng) {
		if err != nil {
			return answer.String() + errText(err)
		}
		fmt.Fprintf(&answer, "%s=%s ", showBytes(e.Key), showBytes(e.Value))
	}
	return answer.String()
}

// snapshot opens a snapshot in a slot, or closes the one that is there.
func (m *metaMaker) snapshot() {
	i := m.IntN(metaSlots)
	m.snapshots[i] = !m.snapshots[i]
	if m.snapshots[i] {
		m.add("snapshot", fmt.Sprint("open ", i), func(r *metaRun) string {
			s, err := r.db.Snapshot()
			if err != nil {
				return errText(err)
			}
			r.snapshots[i] = s
			return fmt.Sprint("number ", s.Seq())
		})
		return
	}
	m.add("snapshot", fmt.Sprint("close ", i), func(r *metaRun) string {
		s := r.snapshots[i]
		r.snapshots[i] = nil
		err := s.Close()
		_, get := s.Get(nil)
		return fmt.Sprintf("%s, again: %s, Get: %s", errText(err), errText(s.Close()), errText(get))
	})
}

// iterator opens an iterator in a slot, or closes the one that is there.
func (m *metaMaker) iterator() {
	i := m.IntN(metaSlots)
	m.iterators[i] = !m.iterators[i]
	if m.iterators[i] {
		from, rng := m.from(), m.bounds()
		m.add("iterator", fmt.Sprintf("open %d: %s%s", i, showFrom(from), showRange(rng)), func(r *metaRun) string {
			r.iterators[i] = r.reader(from).NewIterator(rng)
			return errText(r.iterators[i].Err())
		})
		return
	}
	m.add("iterator", fmt.Sprint("close ", i), func(r *metaRun) string {
		it := r.iterators[i]
		r.iterators[i] = nil
		err := it.Close()
		return fmt.Sprintf("%s, again: %s, Next: %v %s", errText(err), errText(it.Close()), it.Next(), errText(it.Err()))
	})
}

// move moves an iterator, which may be older than many writes.
func (m *metaMaker) move() {
	i := m.IntN(metaSlots)
	for !m.iterators[i] {
		if i++; i == metaSlots {
			m.iterator() // perhaps in this slot: the next time there is one
			return
		}
	}
	var hows, keys []string
	for range 1 + m.IntN(12) {
		how := []string{"Next", "Next", "Next", "Prev", "Prev", "Prev", "SeekGE", "SeekLT", "First", "Last"}[m.IntN(10)]
		key := ""
		if strings.HasPrefix(how, "Seek") {
			key = m.asks()
		}
		hows, keys = append(hows, how), append(keys, key)
	}
	m.add("move", fmt.Sprint("iterator ", i), func(r *metaRun) string {
		var answer strings.Builder
		for j, how := range hows {
			fmt.Fprintf(&answer, "%s %s", how, showKey(keys[j]))
			writePlace(&answer, r.iterators[i], moveIterator(r.iterators[i], how, keys[j]))
		}
		return answer.String()
	})
}

// writePlace writes where an iterator stands after a movement that said ok.
func writePlace(w *strings.Builder, it *Iterator, ok bool) {
	if !ok {
		fmt.Fprintf(w, ": no %v %s; ", it.Valid(), errText(it.Err()))
		return
	}
	fmt.Fprintf(w, ": %v %s=%s; ", it.Valid(), showBytes(it.Key()), showBytes(it.Value()))
}

func (m *metaMaker) sync() {
	m.add("sync", "", func(r *metaRun) string { return errText(r.db.Sync()) })
}

func (m *metaMaker) flush() {
	m.add("flush", "", func(r *metaRun) string { return errText(r.db.Flush(context.Background())) })
}

func (m *metaMaker) verify() {
	m.add("verify", "", func(r *metaRun) string { return errText(r.db.Verify(context.Background())) })
}

// rebuildFilters rebuilds the filters, or is told that none are wanted.
func (m *metaMaker) rebuildFilters() {
	m.add("rebuild filters", "", func(r *metaRun) string {
		_, err := r.db.RebuildFilters(context.Background())
		if none := r.db.opts.FilterBits < 0; none && err != nil {
			err = nil
		} else if none {
			err = errors.New("done, with FilterBits below 0")
		}
		return errText(err)
	})
}

func (m *metaMaker) compact() {
	rng := m.bounds()
	m.add("compact", showRange(rng), func(r *metaRun) string { return errText(r.db.Compact(context.Background(), rng)) })
}

// checkpoint makes a checkpoint and uses it; later ones try to overwrite it.
func (m *metaMaker) checkpoint() {
	if m.copies++; m.IntN(4) == 0 && m.copies > 1 {
		m.copies-- // it is there already
	}
	dir := fmt.Sprint("copy", m.copies)
	key, value := m.someKey(), m.value()
	m.add("checkpoint", dir, func(r *metaRun) string { return errText(r.db.Checkpoint(dir)) })
	m.add("copy", "of "+dir+" put "+showKey(key), func(r *metaRun) string { return r.useCopy(dir, key, value) })
}

// useCopy opens a checkpoint, writes to it and reads it.
func (r *metaRun) useCopy(dir, key string, value []byte) string {
	opts := r.options()
	opts.MustExist = true
	db, err := Open(dir, &opts)
	if err != nil {
		return errText(err)
	}
	answer := scanText(db, Range{}) + errText(db.Put([]byte(key), value))
	answer += scanText(db, Range{KeysOnly: true, Limit: 50, Reverse: true})
	return answer + errText(db.Verify(context.Background())) + errText(db.Close())
}

// readOnly opens the store a second time, for reading, with the other open.
func (m *metaMaker) readOnly() {
	key := m.asks()
	m.add("readOnly", showKey(key), func(r *metaRun) string {
		opts := r.options()
		opts.ReadOnly = true
		db, err := Open("db", &opts)
		if err != nil {
			return errText(err)
		}
		got, err := db.Get([]byte(key))
		answer := scanText(db, Range{}) + showBytes(got) + errText(err) + errText(db.Put(nil, nil))
		return answer + errText(db.Close())
	})
}

// reopen closes the store, orderly or as the death of its process does, and
// opens it. What is held of it is closed before or after.
func (m *metaMaker) reopen() {
	kill, held := m.IntN(2) == 0, m.IntN(2) == 0
	held = held && !kill
	m.iterators, m.snapshots = [metaSlots]bool{}, [metaSlots]bool{}
	m.add("reopen", fmt.Sprintf("killed %v, held over it %v", kill, held), func(r *metaRun) string {
		answer := ""
		if !held {
			answer = r.letGo()
		}
		if kill {
			r.db.cancel()
			r.db.background.Wait()
			r.db.abandon()
		} else {
			answer += errText(r.db.Close())
		}
		return answer + r.letGo() + errText(r.open())
	})
}

// letGo uses all that is held of the store once more and closes it.
func (r *metaRun) letGo() string {
	var answer strings.Builder
	for i, it := range r.iterators {
		if it != nil {
			writePlace(&answer, it, it.Next())
			fmt.Fprintf(&answer, "Close: %s; ", errText(it.Close()))
		}
		r.iterators[i] = nil
	}
	for i, s := range r.snapshots {
		if s != nil {
			has, err := s.Has(nil)
			fmt.Fprintf(&answer, "Has: %v %s, Close: %s; ", has, errText(err), errText(s.Close()))
		}
		r.snapshots[i] = nil
	}
	return answer.String()
}
