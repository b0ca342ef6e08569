package harness

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shaledb/shale"
)

// This file has the operations that read.

// from chooses the store or the snapshot in a slot, if one is open there.
func (s *Source) from() int { return s.IntN(2*slots) - slots }

func showFrom(slot int) string {
	if slot < 0 {
		return ""
	}
	return fmt.Sprintf("of snapshot %d: ", slot)
}

// drawLookup asks for a key in every way there is.
func drawLookup(s *Source) Step {
	from, key := s.from(), []byte(s.Key())
	return Step{Name: "lookup", Args: showFrom(from) + Show(key), Do: func(s *Side) string {
		return lookUp(s.reader(from), key) + ", " + explain(s.Store, key)
	}}
}

func lookUp(r Reader, key []byte) string {
	got, err := r.Get(key)
	has, hasErr := r.Has(key)
	appended, appendErr := r.AppendValue([]byte("x"), key)
	viewed := "nothing"
	viewErr := r.ViewValue(key, func(v []byte) error {
		viewed = Show(v)
		return nil
	})
	at, atErr := r.ExpiresAt(key)
	return fmt.Sprintf("Get %s %s, Has %v %s, AppendValue %s %s, ViewValue %s %s, ExpiresAt %d %s", Show(got), ErrText(err), has, ErrText(hasErr),
		Show(appended), ErrText(appendErr), viewed, ErrText(viewErr), expiryOf(at), ErrText(atErr))
}

func explain(s Store, key []byte) string {
	found, value, err := s.Explain(key)
	if !found {
		value = nil
	}
	return fmt.Sprintf("Explain %v %s %s", found, Show(value), ErrText(err))
}

// drawMayContain asks filters for a key. They must not deny one that is there.
func drawMayContain(s *Source) Step {
	key := s.Key()
	return Step{Name: "mayContain", Args: ShowKey(key), Do: func(s *Side) string {
		if s.MayContain([]byte(key)) {
			return ""
		}
		return "denied"
	}, Fits: func(now State, answer string) error {
		if _, is := now.Get(key); is && answer != "" {
			return fmt.Errorf("MayContain denies %s, which is there", ShowKey(key))
		}
		return nil
	}}
}

// drawMayContainMany asks filters for several keys, and for more answers than there are keys. They must
// not deny a key that is there, nor one that was not asked for.
func drawMayContainMany(s *Source) Step {
	var keys [][]byte
	var args strings.Builder
	for range s.IntN(400) {
		key := s.Key()
		keys = append(keys, []byte(key))
		args.WriteString(ShowKey(key) + " ")
	}
	answers := s.IntN(len(keys) + 2)
	return Step{Name: "mayContainMany", Args: fmt.Sprint(answers, " of ", args.String()), Do: func(s *Side) string {
		out := make([]bool, answers)
		s.MayContainMany(keys, out)
		return fmt.Sprint(out)
	}, Fits: func(now State, answer string) error {
		for i, word := range strings.Fields(strings.Trim(answer, "[]")) {
			if word == "true" {
				continue
			}
			if i >= len(keys) {
				return fmt.Errorf("MayContainMany denies key %d of %d", i, len(keys))
			}
			if _, is := now.Get(string(keys[i])); is {
				return fmt.Errorf("MayContainMany denies %s, which is there", Show(keys[i]))
			}
		}
		return nil
	}}
}

// drawExportFilters asks a bundle of all filters for keys. It must not deny one that is there.
func drawExportFilters(s *Source) Step {
	keys := [][]byte{}
	for range 50 {
		keys = append(keys, []byte(s.Key()))
	}
	return Step{Name: "exportFilters", Do: func(s *Side) string {
		denied, err := s.Denied(keys)
		if err != nil {
			return ErrText(err)
		}
		answer := "denied"
		for _, key := range denied {
			answer += fmt.Sprintf("\n%x", key)
		}
		return answer
	}, Fits: func(now State, answer string) error {
		denied := strings.Split(answer, "\n")
		for _, key := range keys {
			if _, is := now.Get(string(key)); is && slices.Contains(denied[1:], fmt.Sprintf("%x", key)) {
				return fmt.Errorf("the bundle denies %s, which is there", Show(key))
			}
		}
		if denied[0] != "denied" {
			return errors.New(denied[0])
		}
		return nil
	}}
}

func drawGetMany(s *Source) Step {
	var keys [][]byte
	var args strings.Builder
	most := 24
	if !s.Exact && s.IntN(8) == 0 {
		most = 700 // filters are asked about 256 keys at a time
	}
	for range s.IntN(most) {
		key := s.Key()
		keys = append(keys, []byte(key))
		args.WriteString(ShowKey(key) + " ")
	}
	stop := s.IntN(4 * most) // mostly beyond the keys
	enough := errors.New("enough")
	return Step{Name: "getMany", Args: args.String(), Do: func(s *Side) string {
		var answers []string
		err := s.GetMany(keys, func(i int, value []byte, found bool) error {
			s.seen()
			answers = append(answers, fmt.Sprintf("%d %v %s", i, found, Show(value)))
			if i == stop {
				return enough
			}
			return nil
		})
		return fmt.Sprintf("%q %s", answers, ErrText(err))
	}}
}

func drawScan(s *Source) Step {
	from, r := s.from(), s.Range()
	r.Reverse = s.IntN(2) == 0
	if s.IntN(2) == 0 {
		r.Limit = s.IntN(20)
	}
	return ScanStep(from, r)
}

// ScanStep returns a step that scans the store, or the snapshot in a slot.
func ScanStep(from int, r shale.Range) Step {
	return Step{Name: "scan", Args: showFrom(from) + showRange(r), Do: func(s *Side) string { return scanText(s.reader(from), r) }}
}

func scanText(from Reader, r shale.Range) string {
	var answer strings.Builder
	for e, err := range from.Scan(r) {
		if err != nil {
			return answer.String() + ErrText(err)
		}
		fmt.Fprintf(&answer, "%s=%s%s ", Show(e.Key), Show(e.Value), showExpiry(e.ExpiresAt))
	}
	return answer.String()
}

// drawSnapshot opens a snapshot in a slot, or closes the one that is there.
func drawSnapshot(s *Source) Step {
	i := s.IntN(slots)
	return Step{Name: "snapshot", Args: fmt.Sprint("in slot ", i), Do: func(s *Side) string {
		if snapshot := s.snapshots[i]; snapshot != nil {
			s.snapshots[i] = nil
			return fmt.Sprintf("closed: %s, again: %s", ErrText(snapshot.Close()), ErrText(snapshot.Close()))
		}
		snapshot, err := s.Snapshot()
		if err == nil {
			s.snapshots[i] = snapshot
		}
		return "opened: " + ErrText(err)
	}}
}

// drawIterator opens an iterator in a slot, or closes the one that is there.
func drawIterator(s *Source) Step {
	i, from, r := s.IntN(slots), s.from(), s.Range()
	return Step{Name: "iterator", Args: fmt.Sprintf("in slot %d: %s%s", i, showFrom(from), showRange(r)), Do: func(s *Side) string {
		if it := s.iterators[i]; it != nil {
			s.iterators[i] = nil
			err := it.Close()
			return fmt.Sprintf("closed: %s, again: %s, Next: %v %s", ErrText(err), ErrText(it.Close()), it.Next(), ErrText(it.Err()))
		}
		s.iterators[i] = s.reader(from).Iterator(r)
		return "opened: " + ErrText(s.iterators[i].Err())
	}}
}

// Movements are the ways to move an iterator, which stand as often as programs have them. The near
// seeks go from the entry on which the iterator stands to a key close by.
var Movements = []string{"Next", "Next", "Next", "Prev", "Prev", "Prev", "SeekGE", "SeekLT", "NearGE", "NearLT", "First", "Last"}

// drawMove moves an iterator, which may be older than many writes.
func drawMove(s *Source) Step {
	i := s.IntN(slots)
	hows, keys := s.movements(1 + s.IntN(12))
	return Step{Name: "move", Args: fmt.Sprintf("iterator %d: %q %.200q", i, hows, keys), Do: func(s *Side) string {
		var answer strings.Builder
		for n := range slots { // the first that is open, from i
			if it := s.iterators[(i+n)%slots]; it != nil {
				move(&answer, it, hows, keys)
				break
			}
		}
		return answer.String()
	}}
}

func (s *Source) movements(n int) (hows, keys []string) {
	for range n {
		how, key := Movements[s.IntN(len(Movements))], ""
		if strings.HasPrefix(how, "Seek") {
			key = s.Key()
		}
		hows, keys = append(hows, how), append(keys, key)
	}
	return hows, keys
}

// move moves an iterator and writes where it stands after each movement.
func move(w *strings.Builder, it Iterator, hows, keys []string) {
	for j, how := range hows {
		fmt.Fprintf(w, "%s %s", how, ShowKey(keys[j]))
		writePlace(w, it, Move(it, how, []byte(keys[j])))
	}
}

// near returns a key that differs by 1 in its last byte from that of the entry on which it stands,
// or key if it stands on none.
func near(it Iterator, key []byte, by int) []byte {
	if !it.Valid() || len(it.Key()) == 0 {
		return key
	}
	key = bytes.Clone(it.Key())
	key[len(key)-1] += byte(by)
	return key
}

// Move moves an iterator in one of the Movements. The key is where seeks go, but for near ones.
func Move(it Iterator, how string, key []byte) (ok bool) {
	switch how {
	case "First":
		return it.First()
	case "Last":
		return it.Last()
	case "SeekGE":
		return it.SeekGE(key)
	case "SeekLT":
		return it.SeekLT(key)
	case "NearGE":
		return it.SeekGE(near(it, key, 1))
	case "NearLT":
		return it.SeekLT(near(it, key, -1))
	case "Next":
		return it.Next()
	case "Prev":
		return it.Prev()
	}
	panic("unknown movement " + how)
}

// writePlace writes where an iterator stands after a movement that said ok.
func writePlace(w *strings.Builder, it Iterator, ok bool) {
	if !ok {
		fmt.Fprintf(w, ": no %v %s; ", it.Valid(), ErrText(it.Err()))
		return
	}
	fmt.Fprintf(w, ": %v %s=%s%s; ", it.Valid(), Show(it.Key()), Show(it.Value()), showExpiry(it.ExpiresAt()))
}

// showExpiry shows the time at which a value is over, if there is one.
func showExpiry(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprint(" until ", at.UnixMilli())
}

// drawReadOnly opens the store a second time, for reading, next to this one.
func drawReadOnly(s *Source) Step {
	key := []byte(s.Key())
	return Step{Name: "readOnly", Args: Show(key), Do: func(s *Side) string {
		answer := ""
		err := s.ReadOnly(func(r Reader) { answer = scanText(r, shale.Range{}) + lookUp(r, key) })
		return answer + ErrText(err)
	}}
}

// Moments are the reads that clients can do next to others: each shows one moment, between its call
// and its return, or the call of Seen.
var Moments = []Operation{
	{"get", 26, drawGet},
	{"getMany", 5, drawGetMany},
	{"mayContain", 2, drawMayContain},
	{"exportFilters", 1, drawExportFilters},
	{"scan", 8, func(s *Source) Step {
		r := s.Range()
		r.Reverse = s.IntN(2) == 0
		return Step{Name: "scan", Args: showRange(r), Do: func(s *Side) string { return s.scan(s.Store, r) }}
	}},
	{"snapshot", 5, drawMoment("snapshot", func(s *Side, read func(r Reader)) error {
		snapshot, err := s.Snapshot()
		if err != nil {
			return err
		}
		s.seen()
		s.meanwhile()
		read(snapshot)
		return snapshot.Close()
	})},
	{"checkpoint", 1, drawMoment("checkpoint", nil)},
	{"iterator", 5, drawWalk},
}

// drawGet asks for a key in one way.
func drawGet(s *Source) Step {
	key := []byte(s.Key())
	how := Lookups[s.IntN(len(Lookups))]
	return Step{Name: how, Args: Show(key), Do: func(s *Side) string {
		found, value, err := Lookup(s.Store, how, key)
		return fmt.Sprint(found, Show(value), ErrText(err))
	}}
}

// Lookups are the ways to ask for one key, which stand as often as programs have them.
var Lookups = []string{"Get", "Get", "AppendValue", "ViewValue", "Has", "ExpiresAt", "Explain"}

// Lookup asks for a key in one of the Lookups. That it is absent is no error. Has finds no value, ExpiresAt its time.
func Lookup(s Store, how string, key []byte) (found bool, value []byte, err error) {
	switch how {
	case "Get":
		value, err = s.Get(key)
	case "AppendValue":
		value, err = s.AppendValue([]byte{}, key)
	case "ViewValue":
		err = s.ViewValue(key, func(v []byte) error { value = append([]byte{}, v...); return nil })
	case "Has":
		found, err = s.Has(key)
		return found, nil, err
	case "ExpiresAt":
		var at time.Time
		at, err = s.ExpiresAt(key)
		value = []byte(showExpiry(at))
	case "Explain":
		found, value, err = s.Explain(key)
		if !found {
			return false, nil, err
		}
	}
	if errors.Is(err, shale.ErrNotFound) {
		return false, nil, nil
	}
	return err == nil, append([]byte{}, value...), err
}

// scan scans, and has the moment over with the first entry.
func (s *Side) scan(from Reader, r shale.Range) string {
	var answer strings.Builder
	for e, err := range from.Scan(r) {
		s.seen()
		if err != nil {
			return answer.String() + ErrText(err)
		}
		fmt.Fprintf(&answer, "%s=%s%s ", Show(e.Key), Show(e.Value), showExpiry(e.ExpiresAt))
	}
	s.seen()
	return answer.String()
}

// drawMoment returns the draw of a step that holds a state of the store, lets others work, and reads
// all of it. Without hold it is that of a checkpoint.
func drawMoment(name string, hold func(s *Side, read func(r Reader)) error) func(s *Source) Step {
	return func(s *Source) Step {
		r := shale.Range{Reverse: s.IntN(2) == 0}
		keys := [][]byte{[]byte(s.Key()), []byte(s.Key())}
		return Step{Name: name, Args: showRange(r), Do: func(s *Side) (answer string) {
			read := func(from Reader) {
				answer = scanText(from, r)
				for _, key := range keys {
					answer += lookUp(from, key)
				}
			}
			if hold == nil {
				return ErrText(s.copy(read)) + answer
			}
			return ErrText(hold(s, read)) + answer
		}}
	}
}

// copy makes a checkpoint and reads it.
func (s *Side) copy(read func(r Reader)) error {
	dir := "copy"
	if s.NewDir != nil {
		dir = s.NewDir()
	}
	if err := s.Checkpoint(dir); err != nil {
		return err
	}
	s.seen()
	return s.UseCopy(dir, func(c Store) { read(c) })
}

// drawWalk returns a step that opens an iterator, lets others work, and moves it.
func drawWalk(s *Source) Step {
	r := s.Range()
	hows, keys := s.movements(12)
	return Step{Name: "iterator", Args: showRange(r), Do: func(s *Side) string {
		it := s.Iterator(r)
		s.seen()
		s.meanwhile()
		var answer strings.Builder
		move(&answer, it, hows, keys)
		return answer.String() + ErrText(it.Close())
	}}
}
