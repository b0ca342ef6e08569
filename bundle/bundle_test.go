package bundle

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/testkeys"
)

// Every key is answered with maybe, and every other question as the filters themselves
// answer it, for any keys, any shape of the runs and any hash functions.
func TestBundle_AnswersAsItsFilters(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	kinds, rounds, most := testkeys.Made(), 60, 2000
	switch {
	case testenv.Race:
		rounds, most = 10, 200
	case testing.Short():
		rounds, most = 15, 400
	}
	yes, no, maybe := 0, 0, 0
	for range rounds {
		m := &model{spec: Spec{StoreID: rng.Uint64(), Seq: rng.Uint64(), Created: time.Unix(rng.Int64N(1<<40)-1<<39, 0)}}
		all := hashersHere()
		hashers := all[:1+rng.IntN(len(all))]
		m.kinds = []bloom.Kind{bloom.KindBlocked, bloom.KindFuse, bloom.KindFuse}[:1+rng.IntN(3)]
		var absent [][]byte
		for range rng.IntN(6) {
			kind := kinds[rng.IntN(len(kinds))]
			n := 1 + rng.IntN(most)
			present, others := kind.Make(rng.Uint64(), n, 50)
			absent = append(absent, others...)
			bits := []float64{0, 2, 4, 8, 10, 14, 24}[rng.IntN(7)]
			m.addRun(t, rng.IntN(7), 1+rng.IntN(min(20, len(present))), bits, present, hashers...)
		}
		b := mustOpen(t, m.bytes(t))
		m.each(func(key []byte) {
			yes++
			if !b.MayContain(key) {
				t.Fatalf("MayContain(%.60q) = false for a key of the bundle", key)
			}
		})
		for _, key := range absent {
			no++
			got, want := b.MayContain(key), m.mayContain(key)
			if got != want {
				t.Fatalf("MayContain(%.60q) = %v, the filters say %v", key, got, want)
			}
			if got {
				maybe++
			}
		}
	}
	t.Logf("%d bundles, %d keys of them, %d others, of which %d are answered maybe", rounds, yes, no, maybe)
}

func TestBundle_Figures(t *testing.T) {
	m := smallModel(t)
	data := m.bytes(t)
	b := mustOpen(t, data)
	if b.StoreID() != m.spec.StoreID || b.Seq() != 77 || !b.Created().Equal(m.spec.Created) {
		t.Errorf("store %x, sequence number %d, created %v; want %x, 77, %v", b.StoreID(), b.Seq(), b.Created(), m.spec.StoreID, m.spec.Created)
	}
	if b.Runs() != 4 || b.Tables() != 7 || b.Keys() != 9+2+30+4 || b.SizeBytes() != int64(len(data)) {
		t.Errorf("%d runs, %d tables, %d keys, %d bytes; want 4, 7, 45, %d", b.Runs(), b.Tables(), b.Keys(), b.SizeBytes(), len(data))
	}
	if p := b.PredictedFPR(); p != 1 {
		t.Errorf("PredictedFPR() = %v with a run that has no filter, want 1", p)
	}
	if len(b.Damaged()) != 0 || b.Err() != nil {
		t.Errorf("Damaged() = %v, Err() = %v for a bundle without damage", b.Damaged(), b.Err())
	}
}

// The predicted rate is the measured one.
func TestBundle_PredictedFPR(t *testing.T) {
	n := 30_000
	if testing.Short() || testenv.Race {
		n = 6000
	}
	m := &model{}
	var absent [][]byte
	for level := range 3 {
		var keys [][]byte
		for i := range n {
			k := fmt.Appendf(nil, "%08x", uint32(i)*2654435761)
			if i%3 == level {
				keys = append(keys, k)
			}
			absent = append(absent, append(k, byte('0'+level)))
		}
		m.addRun(t, level, 1+5*level, 6+float64(level), keys)
	}
	b := mustOpen(t, m.bytes(t))
	maybe := 0
	for _, key := range absent {
		if b.MayContain(key) {
			maybe++
		}
	}
	measured, predicted := float64(maybe)/float64(len(absent)), b.PredictedFPR()
	t.Logf("%.4f predicted, %.4f measured on %d absent keys", predicted, measured, len(absent))
	if math.Abs(measured/predicted-1) > 0.15 {
		t.Errorf("%.4f predicted, %.4f measured", predicted, measured)
	}
}

// A bundle of no runs knows that nothing is there.
func TestBundle_Empty(t *testing.T) {
	b := mustOpen(t, (&model{}).bytes(t))
	for _, key := range []string{"", "a"} {
		if b.MayContain([]byte(key)) {
			t.Errorf("MayContain(%q) = true of an empty bundle", key)
		}
	}
	if b.PredictedFPR() != 0 || b.Keys() != 0 {
		t.Errorf("PredictedFPR() = %v, Keys() = %d of an empty bundle", b.PredictedFPR(), b.Keys())
	}
}

// Write refuses what is not a bundle.
func TestWrite_Refuses(t *testing.T) {
	key := func(s string) []byte { return []byte(s) }
	ab, cd := Table{Smallest: key("a"), Largest: key("b")}, Table{Smallest: key("c"), Largest: key("d")}
	one := filterOf(t, [][]byte{key("a")}, bloom.KindBlocked, 10, bloom.Hasher{})
	errAsked := errors.New("no filter today")
	calls := 0
	for _, tt := range []struct {
		name   string
		runs   []Run
		filter func(run, table int) ([]byte, error)
		want   error
	}{
		{"no tables", []Run{{}}, nil, nil},
		{"a negative level", []Run{{Level: -1, Tables: []Table{ab}}}, nil, nil},
		{"a high level", []Run{{Level: 256, Tables: []Table{ab}}}, nil, nil},
		{"bounds the wrong way round", []Run{{Tables: []Table{{Smallest: key("b"), Largest: key("a")}}}}, nil, errBounds},
		{"tables out of order", []Run{{Tables: []Table{cd, ab}}}, nil, errOrder},
		{"tables that touch", []Run{{Tables: []Table{ab, {Smallest: key("b"), Largest: key("c")}}}}, nil, errOrder},
		{"a long key", []Run{{Tables: []Table{{Largest: make([]byte, MaxKeySize+1)}}}}, nil, nil},
		{"an error", []Run{{Tables: []Table{ab}}}, func(int, int) ([]byte, error) { return nil, errAsked }, errAsked},
		{"no filter", []Run{{Tables: []Table{ab}}}, func(int, int) ([]byte, error) { return one[1:], nil }, bloom.ErrDamaged},
		{"fewer keys", []Run{{Tables: []Table{{Smallest: key("a"), Largest: key("b"), Keys: 2}}}}, func(int, int) ([]byte, error) { return one, nil }, errKeys},
		{"another filter the second time", []Run{{Tables: []Table{{Smallest: key("a"), Largest: key("a"), Keys: 1}}}}, func(int, int) ([]byte, error) {
			if calls++; calls > 1 {
				return nil, nil
			}
			return one, nil
		}, nil},
	} {
		if tt.filter == nil {
			tt.filter = func(int, int) ([]byte, error) { return nil, nil }
		}
		_, err := Write(io.Discard, &Spec{Runs: tt.runs}, tt.filter)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: Write gives %v, want %v", tt.name, err, tt.want)
		}
	}
}

// failAfter takes a number of bytes, and then returns an error.
type failAfter int

func (w *failAfter) Write(p []byte) (int, error) {
	if *w -= failAfter(len(p)); *w < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestWrite_WriterFails(t *testing.T) {
	m := smallModel(t)
	size := len(m.bytes(t))
	for n := range size {
		w := failAfter(n)
		if _, err := Write(&w, &m.spec, func(run, table int) ([]byte, error) { return m.filters[run][table], nil }); !errors.Is(err, io.ErrShortWrite) {
			t.Fatalf("Write gives %v after %d of %d bytes", err, n, size)
		}
	}
}

func TestMayContain_AllocatesNothing(t *testing.T) {
	testenv.SkipRace(t)
	m := smallModel(t)
	b := mustOpen(t, m.bytes(t))
	absent := []byte("key-013")
	if n := testing.AllocsPerRun(100, func() {
		b.MayContain(absent)
		m.each(func(key []byte) { b.MayContain(key) })
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
