package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/remote/internal/restore"
	"github.com/shaledb/shale/vfs"
)

// isPrefix reports whether a restored store is what the model held after some commit, not before the point that r says.
func (s *shipped) isPrefix(r Restored, held map[string]string) bool {
	return slices.ContainsFunc(s.commits, func(c commit) bool { return c.seq >= r.At.Seq && maps.Equal(c.held, held) })
}

// A swept is a small bucket with every kind of object, and all that is known of it: it is damaged in many ways.
type swept struct {
	*shipped
	all      map[string][]byte
	names    []string
	states   []*restore.Moment // after each step
	segments []*object.Segment
	ingested []uint64 // the sequence numbers of ingestions
}

// newSwept makes a bucket with nine steps, two of them with states, and a pin.
func newSwept(t testing.TB, seed uint64) *swept {
	t.Helper()
	s := &swept{shipped: newShipped(t, seed, NewMem())}
	t.Cleanup(s.close)
	for i := range 8 {
		for range 4 {
			s.write(1 + s.rng.IntN(4))
		}
		switch i {
		case 1, 3, 4:
			mustNil(t, s.db.Flush(t.Context()))
		case 2:
			s.ingest()
			s.ingested = append(s.ingested, s.commits[len(s.commits)-1].seq)
		case 5:
			mustNil(t, s.db.Compact(t.Context(), shale.Range{}))
		case 6:
			_, err := s.db.Inspect().RebuildFilters(t.Context())
			mustNil(t, err)
		}
		s.ship()
		s.publish()
		if i == 4 {
			_, err := chain.Pin(t.Context(), s.b, s.storeID, "keep", chain.PinOptions{})
			mustNil(t, err)
		}
	}
	s.write(3)
	s.ship()
	s.all = objects(t, s.b)
	s.names = slices.Sorted(maps.Keys(s.all))
	h, err := restore.OpenHistory(t.Context(), s.b)
	mustNil(t, err)
	h.States = nil
	_, err = h.Walk(t.Context(), h.Newest, func(m restore.Moment) error { s.states = append(s.states, &m); return nil })
	mustNil(t, err)
	for seg, err := range (chain.SegmentList{Bucket: s.b, StoreID: s.storeID}).From(t.Context(), object.RootPosition) {
		mustNil(t, err)
		s.segments = append(s.segments, seg.Segment)
	}
	return s
}

// A harm is one way in which an object is damaged. It returns nil if the object is removed.
type harm struct {
	what string
	do   func(s *swept, name string, data []byte) []byte
}

// harms are the ways, which depend on a seed where there is a choice.
func harms(rng *rand.Rand) []harm {
	flip := func(at func(n int) int) func(*swept, string, []byte) []byte {
		return func(_ *swept, _ string, data []byte) []byte {
			return remotetest.Flipped(data, 8*at(len(data))+rng.IntN(8))
		}
	}
	return []harm{
		{"flipped at the beginning", flip(func(n int) int { return rng.IntN(min(n, 32)) })},
		{"flipped in the middle", flip(func(n int) int { return n / 2 })},
		{"flipped anywhere", flip(rng.IntN)},
		{"flipped at the end", flip(func(n int) int { return n - 1 - rng.IntN(min(n, 32)) })},
		{"truncated", func(_ *swept, _ string, data []byte) []byte { return data[:rng.IntN(len(data))] }},
		{"emptied", func(*swept, string, []byte) []byte { return []byte{} }},
		{"removed", func(*swept, string, []byte) []byte { return nil }},
		{"replaced by another", func(s *swept, name string, _ []byte) []byte {
			i := slices.Index(s.names, name)
			return s.all[s.names[(i+1+rng.IntN(len(s.names)-1))%len(s.names)]]
		}},
	}
}

// A wreck is the bucket with one object damaged, or two, and what an independent look at its bytes finds that it has.
type wreck struct {
	*swept
	name, what string
	also       string // the other object, or ""
	bytes      map[string][]byte
}

func (w *wreck) String() string { return w.name + " " + w.what + " " + w.also }

// harm damages an object.
func (w *wreck) harm(name string, h harm) {
	if data := h.do(w.swept, name, w.all[name]); data != nil {
		w.bytes[name] = data
	} else {
		delete(w.bytes, name)
	}
}

// same reports whether an object is as it was.
func (w *wreck) same(name string) bool {
	now, there := w.bytes[name]
	return there && bytes.Equal(now, w.all[name])
}

// usable reports whether the tables of step n are whole and can be known.
func (w *wreck) usable(n uint64) bool {
	known := func(from uint64) bool {
		for k := from + 1; k <= n; k++ {
			if !w.same(object.StepName(k)) {
				return false
			}
		}
		return from == 0 || w.same(object.StateName(from))
	}
	readable := false
	for from := range n + 1 {
		readable = readable || known(from)
	}
	for t := range w.states[n-1].State.Tables.Version.Tables() {
		readable = readable && w.same(object.TableName(uint64(t.Num)))
	}
	return readable
}

// reaches returns how far the logs lead from step n.
func (w *wreck) reaches(n uint64) uint64 {
	m := w.states[n-1]
	r := &restoration{moment: m}
	at, reach := r.start(), m.Reach()
	for _, seg := range w.segments {
		if (object.Position{Log: seg.Log, Offset: seg.Offset}).Before(at) {
			continue
		}
		if !w.same(seg.Name()) {
			return reach
		}
		for _, mark := range w.ingested {
			if mark > uint64(m.State.Tables.LastSeq) && mark <= seg.LastSeq {
				return max(reach, mark-1)
			}
		}
		reach = max(reach, seg.LastSeq)
	}
	return reach
}

// best returns the highest sequence number that can be restored, and that is at most limit: by trying all steps.
func (w *wreck) best(limit uint64) (best uint64) {
	for n := uint64(1); n <= uint64(len(w.states)); n++ {
		if m := w.states[n-1]; w.usable(n) && (uint64(m.State.Tables.LastSeq) <= limit || limit == 0) {
			reach := w.reaches(n)
			if limit > 0 {
				reach = min(reach, limit)
			}
			best = max(best, reach)
		}
	}
	return best
}

// sweep calls fn for each object, damaged in each way, and then for pairs: for some of them in a brief run.
func sweep(t *testing.T, fn func(t *testing.T, w *wreck)) {
	seed := uint64(1)
	rng := rand.New(rand.NewPCG(seed, 7))
	s := newSwept(t, seed)
	done := 0
	try := func(w *wreck, h harm) {
		w.bytes = maps.Clone(s.all)
		for _, name := range []string{w.name, w.also} {
			if name != "" {
				w.harm(name, h)
			}
		}
		s.b = bucketWith(t, w.bytes)
		if fn(t, w); t.Failed() {
			t.Fatalf("seed %d: %v", seed, w)
		}
	}
	names := s.names
	if _, isLong := long(t); isLong {
		names = slices.Repeat(names, 20) // each time other bytes
	}
	for _, name := range names {
		for i, h := range harms(rng) {
			if done++; testing.Short() && (i+len(name)+done)%5 != 0 {
				continue
			}
			try(&wreck{swept: s, name: name, what: h.what}, h)
		}
	}
	pairs := 100
	if testing.Short() {
		pairs = 10
	}
	for range pairs {
		all := harms(rng)
		h, first := all[rng.IntN(len(all))], rng.IntN(len(s.names))
		second := (first + 1 + rng.IntN(len(s.names)-1)) % len(s.names)
		try(&wreck{swept: s, name: s.names[first], what: h.what, also: s.names[second]}, h)
		done++
	}
	t.Logf("%d objects, %d wrecks", len(s.names), done)
}

// named reports whether an error names an object that is damaged.
func (w *wreck) named(err error) bool {
	return strings.Contains(err.Error(), w.name) || w.also != "" && strings.Contains(err.Error(), w.also) ||
		errors.Is(err, shale.ErrFormatTooNew) || w.nameless() && errors.Is(err, fs.ErrNotExist)
}

// nameless reports whether it is unknown which store the bucket has.
func (w *wreck) nameless() bool {
	return w.name == IdentityName || w.also == IdentityName
}

// A bucket has one object that is damaged. A restore of the newest point gives the best one that there is, and says what
// is wrong. A restore of another point gives it, or names the object and points nearby that can be restored.
func TestRestore_DamagedBucket(t *testing.T) {
	full, less, refused := 0, 0, 0
	sweep(t, func(t *testing.T, w *wreck) {
		r, held, err := w.restored(At{})
		best := w.best(0)
		switch {
		case err != nil:
			if !w.named(err) || best > 0 && !w.nameless() && !errors.Is(err, shale.ErrFormatTooNew) {
				t.Errorf("up to %d can be restored: %v", best, err)
			}
			refused++
			return
		case !w.isPrefix(r, held):
			t.Errorf("restored %+v: with other data", r)
		case r.At.Seq != best:
			t.Errorf("restored %+v, want %d", r, best)
		case best < w.lastSeq && (len(r.Damage) == 0 || r.Left.Why == "") && !w.unseen():
			t.Errorf("restored %+v: it does not say what is missing", r)
		case best < w.lastSeq:
			less++
		default:
			full++
		}
		for _, f := range r.Damage {
			if f.Object != w.name && f.Object != w.also {
				t.Errorf("restored %+v: %s is not damaged", r, f.Object)
			}
		}
		for i := w.rng.IntN(12); i < len(w.commits); i += 12 {
			w.restoreOne(t, w.commits[i])
		}
		for n := w.rng.IntN(4); n < len(w.states); n += 4 {
			w.nearby(t, At{Step: uint64(n + 1)})
		}
	})
	t.Logf("%d times all was restored, %d times less, %d times nothing", full, less, refused)
	if full == 0 || less == 0 || refused == 0 {
		t.Error("all three should happen")
	}
}

// unseen reports whether nothing in the bucket shows that the object was there.
func (w *wreck) unseen() bool {
	for _, name := range []string{object.StepName(uint64(len(w.states))), w.segments[len(w.segments)-1].Name()} {
		if _, there := w.bytes[name]; !there {
			return true
		}
	}
	return false
}

// restoreOne restores the point of a commit.
func (w *wreck) restoreOne(t *testing.T, c commit) {
	if c.seq == 0 {
		return
	}
	can := w.best(c.seq) == c.seq
	r, held, err := w.restored(At{Seq: c.seq})
	switch {
	case err == nil && (r.At.Seq != c.seq || !maps.Equal(held, c.held)):
		t.Errorf("sequence number %d: restored %+v: with other data", c.seq, r)
	case err != nil && can && !errors.Is(err, shale.ErrFormatTooNew):
		t.Errorf("sequence number %d can be restored: %v", c.seq, err)
	case err != nil:
		w.nearby(t, At{Seq: c.seq})
	}
}

// nearby restores a point, or those that are named instead of it.
func (w *wreck) nearby(t *testing.T, at At) {
	r, held, err := w.restored(at)
	if err == nil {
		if !w.isPrefix(r, held) {
			t.Errorf("%v: restored %+v with other data", at, r)
		}
		return
	}
	var point *PointError
	if !errors.As(err, &point) {
		if !errors.Is(err, shale.ErrFormatTooNew) {
			t.Errorf("%v: %v", at, err)
		}
		return
	}
	for _, near := range []*At{point.Before, point.After} {
		if near == nil {
			continue
		}
		r, held, err := w.restored(At{Step: near.Step, Seq: near.Seq})
		if w.also != "" && errors.As(err, &point) {
			continue // a table of that is damaged too, which shows when it is fetched
		}
		if err != nil || r.At.Seq < near.Seq || !w.isPrefix(r, held) {
			t.Errorf("%v is named for %v: %+v, %v", near, at, r, err)
		}
	}
	if at.Seq > 0 && point.Before == nil && w.best(at.Seq) > 0 {
		t.Errorf("%v: %d can be restored: %v", at, w.best(at.Seq), err)
	}
}

// A store that was restored from a damaged bucket may lack writes that readers of the bucket have seen, so it can't take
// the bucket over: it would give their numbers to others.
func TestRestore_DamageTakesNothingOver(t *testing.T) {
	k := &kept{shipped: shipped{t: t, rng: rand.New(rand.NewPCG(2, 9)), b: NewMem(), commits: []commit{{0, map[string]string{}}}}}
	k.opened(vfs.NewMem())
	k.random(20)
	for range 5 {
		k.write(2)
		mustNil(t, k.store.Ship(t.Context()))
	}
	k.sync() // a step whose extents have all segments
	k.cut()
	_ = k.store.Close() // its machine is gone, and ships no seal
	all, segments := objects(t, k.b), []string{}
	for name, data := range all {
		if strings.HasPrefix(name, object.SegmentFolder) && len(data) > object.SegmentHeader {
			segments = append(segments, name)
		}
	}
	slices.Sort(segments)
	refused := 0
	for _, name := range segments {
		damaged := maps.Clone(all)
		damaged[name] = remotetest.Flipped(all[name], 8*len(all[name])-1)
		k.b = bucketWith(t, damaged)
		disk := vfs.NewMem()
		r, err := Restore(t.Context(), k.b, shippedDir, At{}, &RestoreOptions{FS: disk})
		mustNil(t, err)
		if len(r.Damage) == 0 {
			continue // no log of the newest step
		}
		if s, err := Open(t.Context(), shippedDir, k.b, manual(disk)); !errors.Is(err, ErrFenced) && !object.IsDamage(err) {
			t.Fatalf("without %s, restored %+v, the directory takes the bucket over: %v, %v", name, r, s, err)
		}
		refused++
	}
	if refused == 0 {
		t.Error("no segment was needed")
	}
}

// The log of a step was lost, and the tables that have its writes are damaged. Nothing in the logs shows that there was
// more, but the step does.
func TestRestore_DamagedTablesBeyondLogs(t *testing.T) {
	s := newShipped(t, 1, NewMem())
	defer s.close()
	s.write(2)
	s.ship()
	s.publish()
	before := s.lastSeq
	s.write(3)
	mustNil(t, s.db.Flush(t.Context()))
	logs := s.logs()
	s.put(&object.Segment{Kind: object.SegmentSeal, FirstSeq: before + 1, LastSeq: before, Next: uint64(logs[len(logs)-1])})
	s.publish()
	last := s.commits[len(s.commits)-1].seq
	for tb := range s.state.Tables.Version.Tables() {
		mustNil(t, s.b.Delete(t.Context(), object.TableName(uint64(tb.Num))))
	}
	r, held, err := s.restored(At{})
	mustNil(t, err)
	if !s.isPrefix(r, held) || r.At.Seq != before || r.Left.Why == "" || r.Left.LastSeq != last || len(r.Damage) == 0 {
		t.Errorf("restored %+v, want %d of %d", r, before, last)
	}
	var point *PointError
	if _, _, err = s.restored(At{Step: s.state.N}); !errors.As(err, &point) || point.Before == nil || point.Before.Seq != before {
		t.Errorf("the step: %v", err)
	}
}

// A bucket has one object that is damaged. A reader shows a state that the store has had, or each read that needs
// the object names it. Once the object is mended, the reader shows everything.
func TestReader_DamagedBucket(t *testing.T) {
	opened, failed, behind := 0, 0, 0
	sweep(t, func(t *testing.T, w *wreck) {
		if strings.HasPrefix(w.name+w.also, object.PinFolder) {
			return
		}
		r, err := OpenReader(t.Context(), w.b, &ReaderOptions{Interval: -1, Store: shale.Options{CacheSize: -1, OnEvent: func(shale.Event) {}}})
		if err != nil {
			failed++
			if !w.named(err) {
				t.Error(err)
			}
			if best := w.best(0); best == w.lastSeq && !w.nameless() && !errors.Is(err, shale.ErrFormatTooNew) {
				t.Errorf("%d can be read: %v", best, err)
			}
			return
		}
		defer r.Close()
		opened++
		w.reads(t, r)
		seq := r.Seq()
		if seq < w.lastSeq {
			behind++
		}
		if best := w.best(0); seq < best {
			t.Errorf("it shows %d of %d", seq, best)
		} else if _, lost := r.files.Damage(); lost != nil {
			t.Errorf("it does without a table, although an earlier state and its logs lead to %d: %v", best, lost)
		}
		for _, name := range []string{w.name, w.also} {
			if name != "" {
				mustNil(t, PutObject(t.Context(), w.b, name, w.all[name], false))
			}
		}
		if err := r.Refresh(t.Context()); err != nil {
			t.Errorf("mended: %v", err)
		}
		if seq := r.Seq(); seq != w.lastSeq {
			t.Errorf("mended: it shows %d of %d", seq, w.lastSeq)
		}
		sameMap(t, "mended", contents(t, r), w.held())
	})
	t.Logf("%d opened, %d of them showed less, %d failed", opened, behind, failed)
	if opened == 0 || failed == 0 || behind == 0 {
		t.Error("all three should happen")
	}
}

// reads looks up every key that the store ever had.
func (w *wreck) reads(t *testing.T, r *Reader) {
	var shown []commit // those that the values agree with
	for _, c := range w.commits {
		if c.seq >= r.Seq() {
			shown = append(shown, c)
		}
	}
	for i := range 50 {
		key := fmt.Sprintf("k%02d", i)
		v, err := r.Get([]byte(key))
		if err != nil && err != shale.ErrNotFound {
			if !w.named(err) {
				t.Errorf("%s: %v", key, err)
			}
			continue
		}
		shown = slices.DeleteFunc(shown, func(c commit) bool {
			want, there := c.held[key]
			return there != (err == nil) || want != string(v)
		})
	}
	if len(shown) == 0 {
		t.Errorf("at %d it shows no state that the store has had", r.Seq())
	}
}

// A bucket has one object that is damaged. A deep verification names it, and the newest point that can be restored. One
// that is not deep names what is missing or has another size.
func TestVerify_DamagedBucket(t *testing.T) {
	sweep(t, func(t *testing.T, w *wreck) {
		if w.nameless() {
			return
		}
		for _, deep := range []bool{true, false} {
			report, err := Verify(t.Context(), w.b, deep)
			mustNil(t, err)
			now, there := w.bytes[w.name]
			seen := deep || len(now) != len(w.all[w.name]) && w.also == ""
			if !there && (w.unseen() || strings.HasPrefix(w.name, object.PinFolder) || strings.HasPrefix(w.name, object.StateFolder)) {
				continue // nothing says that it was there
			}
			if seen && w.also == "" && !slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Object == w.name }) {
				t.Errorf("deep %v: %v", deep, report.Findings)
			}
			tooNew := slices.ContainsFunc(report.Findings, func(f Finding) bool { return errors.Is(f.Err, shale.ErrFormatTooNew) })
			if best := w.best(0); seen && !tooNew && report.Point.Seq != best && !w.behindGap(report.Point.Seq) {
				t.Errorf("deep %v: %+v, want the point %d", deep, report.Point, best)
			}
		}
	})
}

// behindGap reports whether the logs lead to a point, but for an ingestion that a restore finds missing.
func (w *wreck) behindGap(seq uint64) bool {
	best := w.best(0)
	return slices.ContainsFunc(w.ingested, func(mark uint64) bool { return mark == best+1 && seq > best })
}

// TestRestore_ReadsNoEarlierSteps restores a store without a floor that has a state. No step before that is read, so it
// does no harm that one is damaged.
func TestRestore_ReadsNoEarlierSteps(t *testing.T) {
	fsys, b, model := vfs.NewMem(), remotetest.NewFake(NewMem()), map[string]string{}
	o := manual(fsys)
	o.testing.states = 20
	s := openStore(t, "db", b, o)
	for range 60 {
		put(t, s, model, "k", 5)
		mustNil(t, s.Publish(t.Context()))
	}
	mustNil(t, s.Close())
	mustNil(t, PutObject(t.Context(), b, object.StepName(7), []byte("damaged"), false))
	before := b.Count("read", object.StepFolder)
	r, err := Restore(t.Context(), b, "db", At{}, &RestoreOptions{FS: vfs.NewMem()})
	mustNil(t, err)
	if n := b.Count("read", object.StepFolder) - before; len(r.Damage) > 0 || n > 25 {
		t.Errorf("%d steps were read; damage: %v", n, r.Damage)
	}
}

// TestRestore_ManyDamagedTables restores a bucket with many damaged tables. All of them are found by one attempt: the logs are
// not read again for each one.
func TestRestore_ManyDamagedTables(t *testing.T) {
	fsys, b, model := vfs.NewMem(), remotetest.NewFake(NewMem()), map[string]string{}
	s := openStore(t, "db", b, manual(fsys))
	put(t, s, model, "k", 5)
	mustNil(t, s.Publish(t.Context()))
	for i := range 20 {
		put(t, s, model, fmt.Sprint("table", i, "-"), 5)
		mustNil(t, s.Ship(t.Context()))
		mustNil(t, s.DB().Flush(t.Context()))
		mustNil(t, s.Publish(t.Context()))
	}
	mustNil(t, s.Close())
	segments := 0
	for info, err := range b.Bucket.List(t.Context(), "", "") {
		mustNil(t, err)
		switch name, _ := object.ParseName(info.Name); name.Kind {
		case object.KindSegment:
			segments++
		case object.KindTable:
			data := objects(t, b.Bucket)[info.Name]
			mustNil(t, PutObject(t.Context(), b.Bucket, info.Name, remotetest.Flipped(data, 8*len(data)/2), false))
		}
	}
	before := b.Count("read", object.SegmentFolder)
	fsys = vfs.NewMem()
	r, err := Restore(t.Context(), b, "db", At{}, &RestoreOptions{FS: fsys, Fetches: 4})
	mustNil(t, err)
	sameMap(t, "the logs", contentsOf(t, fsys, "db"), model)
	if n := b.Count("read", object.SegmentFolder) - before; n > 3*segments {
		t.Errorf("%d reads of %d segments; %d objects are damaged", n, segments, len(r.Damage))
	}
}
