package remote

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
)

// long reports how long the tests of whole lives may take: for as long as SHALE_LONG says, if it is set.
func long(t testing.TB) (time.Duration, bool) {
	text := os.Getenv("SHALE_LONG")
	if text == "" {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		d = time.Minute
	}
	return d, true
}

// check restores a point, and compares the store with the model. It reports whether the point can be
// restored. A refusal must name points nearby that can.
func (s *shipped) check(at At) bool {
	s.t.Helper()
	r, held, err := s.restored(at)
	if err == nil {
		s.compare(at, r, held)
		return true
	}
	var refused *PointError
	if !errors.As(err, &refused) {
		s.t.Fatalf("%v: %v", at, err)
	}
	if n := strings.Count(err.Error(), "remote: "); n != 1 {
		s.t.Errorf("the error says %d times what was tried: %v", n, err)
	}
	for _, near := range []*At{refused.Before, refused.After} {
		if near == nil {
			continue
		}
		to := At{Step: near.Step, Seq: near.Seq}
		r, held, err := s.restored(to)
		if err != nil {
			s.t.Fatalf("%v is near %v, but: %v", to, at, err)
		}
		if r.At.Seq < near.Seq {
			s.t.Fatalf("%v is near %v: restored %v", to, at, r.At)
		}
		s.compare(to, r, held)
	}
	if b, a := refused.Before, refused.After; at.Seq > 0 && (b != nil && b.Seq > at.Seq || a != nil && a.Seq < at.Seq) {
		s.t.Fatalf("%v is refused with points before %v and after %v", at, b, a)
	}
	return false
}

// compare compares a restored store with the model.
func (s *shipped) compare(at At, r Restored, held map[string]string) {
	s.t.Helper()
	want := s.want(r.At.Seq)
	if !maps.Equal(held, want.held) && !s.ahead(at, r, held) {
		s.t.Fatalf("%v: restored %v, it differs from the state after %d: %s", at, r.At, want.seq, difference(held, want.held))
	}
	if at.Seq > 0 && at.Step == 0 && s.want(at.Seq).seq != want.seq {
		s.t.Fatalf("%v: restored %v, the batches up to there end at %d", at, r.At, s.want(at.Seq).seq)
	}
	if !r.Checked {
		s.t.Fatalf("%v: not checked", at)
	}
}

// ahead reports whether a restored store is what a later batch led to that only the tables of its step
// have: they came into the bucket before their logs.
func (s *shipped) ahead(at At, r Restored, held map[string]string) bool {
	if at.Seq > 0 && at.Step == 0 {
		return false
	}
	c, err := chain.LoadChain(s.t.Context(), s.b, s.storeID, r.At.Step)
	mustNil(s.t, err)
	for _, commit := range s.commits {
		if commit.seq > r.At.Seq && commit.seq <= uint64(c.State.Tables.LastSeq) && maps.Equal(held, commit.held) {
			return true
		}
	}
	return false
}

// difference returns the first difference of two maps.
func difference(got, want map[string]string) string {
	for i := range 50 {
		k := fmt.Sprintf("k%02d", i)
		g, there := got[k]
		if w, wanted := want[k]; there != wanted || g != w {
			return fmt.Sprintf("%s is %.30q %v, want %.30q %v", k, g, there, w, wanted)
		}
	}
	return "none"
}

// A store that publishes each ingestion at once can be restored to every sequence number that has come
// into the bucket, to every step and to every time, and is what it was then: nasty 5.
func TestRestore_EveryPointOfALife(t *testing.T) {
	restores := 0
	limit, isLong := long(t)
	end := time.Now().Add(limit)
	for seed := uint64(1); seed <= 4 || isLong && (time.Now().Before(end) || restores < 2000); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newShipped(t, seed, NewMem())
			defer s.close()
			s.live(60, false)
			s.ship()
			if seed%2 == 0 {
				s.publish()
			}
			stride := uint64(1)
			if !isLong {
				stride = 3
			}
			for seq := 1 + seed%stride; seq <= s.lastSeq; seq += stride {
				if restores++; !s.check(At{Seq: seq}) {
					t.Errorf("sequence number %d of %d can't be restored", seq, s.lastSeq)
				}
			}
			for n := uint64(1); n <= s.state.N; n++ {
				if restores++; !s.check(At{Step: n}) {
					t.Errorf("step %d of %d can't be restored", n, s.state.N)
				}
			}
			for i := int(seed) % 5; i < len(s.ticks); i += 5 {
				restores++
				at := At{Time: s.ticks[i].at.Add(time.Second / 2)}
				r, held, err := s.restored(at)
				if err != nil { // between the mark of an ingestion and the step that has it
					if s.check(at); !strings.Contains(err.Error(), "ingestion") {
						t.Errorf("tick %d of %d can't be restored: %v", i, len(s.ticks), err)
					}
					continue
				}
				s.compare(At{}, r, held)
				if r.At.Seq != s.ticks[i].seq {
					t.Errorf("tick %d: restored %v, sequence number %d was in the bucket then", i, r.At, s.ticks[i].seq)
				}
			}
			r, held, err := s.restored(At{})
			mustNil(t, err)
			s.compare(At{}, r, held)
			if r.At.Seq != s.lastSeq || r.Left != (LeftOut{}) {
				t.Errorf("the newest point: %+v, want %d", r, s.lastSeq)
			}
			if s.check(At{Seq: s.lastSeq + 1}) || s.check(At{Step: s.state.N + 1}) {
				t.Error("a point of the future was restored")
			}
			report, err := Verify(t.Context(), s.b, true)
			mustNil(t, err)
			if len(report.Findings) > 0 || len(report.Leftovers) > 0 {
				t.Errorf("Verify: %v, left over %v", report.Findings, report.Leftovers)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d restores", restores)
}

// In a store whose ingestions are published late, or whose tables are ahead of its logs, a point is
// restored right or refused, and a refusal names points that can be restored.
func TestRestore_RefusesWhatItLacks(t *testing.T) {
	restored, refused := 0, 0
	_, isLong := long(t)
	for seed := uint64(1); seed <= 3 || isLong && seed < 30; seed++ {
		s := newShipped(t, seed, NewMem())
		s.live(70, true)
		last := s.commits[len(s.commits)-1].seq
		for seq := 1 + seed%2; seq <= last; seq += 2 {
			if s.check(At{Seq: seq}) {
				restored++
			} else {
				refused++
			}
		}
		for n := uint64(1); n <= s.state.N; n++ {
			s.check(At{Step: n})
		}
		for i := 0; i < len(s.ticks); i += 4 {
			s.check(At{Time: s.ticks[i].at})
		}
		r, held, err := s.restored(At{})
		mustNil(t, err)
		s.compare(At{}, r, held)
		s.close()
	}
	t.Logf("%d points were restored, %d refused", restored, refused)
	if restored == 0 || refused == 0 {
		t.Error("both should happen")
	}
}

// A log that ends without its seal may lack writes. They are in tables, if anywhere. Until a step has
// these, the newest point is before them, and no later one can be restored.
func TestRestore_LogThatWasLost(t *testing.T) {
	s := newShipped(t, 1, NewMem())
	defer s.close()
	for range 5 {
		s.write(2)
	}
	s.ship()
	s.publish()
	s.write(2)
	s.ship()
	before := s.lastSeq
	for range 3 {
		s.write(2)
	}
	mustNil(t, s.db.Flush(t.Context()))
	logs := s.logs()
	s.put(&object.Segment{Kind: object.SegmentSeal, FirstSeq: s.lastSeq + 1, LastSeq: s.lastSeq, Next: uint64(logs[len(logs)-1])})
	s.write(2)
	s.ship()

	r, held, err := s.restored(At{})
	mustNil(t, err)
	s.compare(At{}, r, held)
	if r.At.Seq != before || r.Left.LastSeq != s.lastSeq || r.Left.Segments == 0 || !strings.Contains(r.Left.Why, "lack") {
		t.Errorf("%+v, want the point %d", r, before)
	}
	for seq := before + 1; seq <= s.lastSeq; seq++ {
		if s.check(At{Seq: seq}) {
			t.Errorf("sequence number %d was restored", seq)
		}
	}
	s.publish()
	r, held, err = s.restored(At{})
	mustNil(t, err)
	s.compare(At{}, r, held)
	if r.At.Seq != s.lastSeq || r.Left != (LeftOut{}) {
		t.Errorf("%+v, want the point %d", r, s.lastSeq)
	}
}
