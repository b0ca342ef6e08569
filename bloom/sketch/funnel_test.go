package sketch

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
)

type visit struct {
	host string
	path []byte
	user uint64
	at   float64
	bot  bool
	tz   int64
}

func funnelVisit(v visit, s *Sink) {
	s.String(v.host)
	s.Bytes(v.path)
	s.Uint64(v.user)
	s.Float64(v.at)
	s.Bool(v.bot)
	s.Int64(v.tz)
}

func visits(n int) (all []visit) {
	for i := range n {
		all = append(all, visit{string(filtertest.Numbered(i)), filtertest.Numbered(i * 7), uint64(i), float64(i) / 3, i%2 == 0, int64(-i)})
	}
	return all
}

// Any filter of this package can have values.
func TestOf_AnyFilter(t *testing.T) {
	scalable, err := NewScalable(ScalableOptions{Capacity: 10, FPR: 1e-6})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []bloom.Adder{bloom.New(1000, 1e-6), scalable} {
		o := bloom.Must(NewOf(f, funnelVisit))
		all := visits(1000)
		for _, v := range all[:500] {
			if err := o.Add(v); err != nil {
				t.Fatal(err)
			}
		}
		for i, v := range all {
			if got := o.MayContain(v); got != (i < 500) {
				t.Errorf("%T: MayContain(%v) = %v", f, v, got)
			}
		}
		if o.Filter() != f {
			t.Errorf("%T: Filter", f)
		}
	}
}

// A fake has the methods that Cuckoo has.
type fake map[string]bool

var errFake = errors.New("full")

func (f fake) Add(key []byte) error {
	if len(f) == 2 {
		return errFake
	}
	f[string(key)] = true
	return nil
}
func (f fake) AddString(s string) error        { return f.Add([]byte(s)) }
func (f fake) AddKeys(keys [][]byte) error     { return addKeys(f, keys) }
func (f fake) MayContain(key []byte) bool      { return f[string(key)] }
func (f fake) MayContainString(s string) bool  { return f[s] }
func (f fake) MayContainKeys([][]byte, []bool) {}
func (f fake) SizeBytes() int                  { return len(f) }
func (f fake) Remove(key []byte) bool {
	had := f[string(key)]
	delete(f, string(key))
	return had
}

func TestOf_RemovesAndFails(t *testing.T) {
	o := bloom.Must(NewOfRemover(fake{}, func(v string, s *Sink) { s.String(v) }))
	for i, want := range []error{nil, nil, errFake} {
		if err := o.Add(strings.Repeat("a", i)); err != want {
			t.Errorf("Add = %v, want %v", err, want)
		}
	}
	if !o.MayContain("a") || !o.Remove("a") || o.MayContain("a") || o.Remove("a") {
		t.Error("Remove")
	}
	asked := bloom.Must(NewView(bloom.Set(fake{"\x01\x01a": true}), func(v string, s *Sink) { s.String(v) }))
	if !asked.MayContain("a") || asked.MayContain("ab") {
		t.Error("View")
	}
}

// Fields stay apart. The bytes never change, because filters were written with them.
func TestSink_Fields(t *testing.T) {
	var s Sink
	fields := func(put func(s *Sink)) string {
		s.Reset()
		put(&s)
		return string(s.Key())
	}
	seen := make(map[string]int)
	for i, put := range []func(s *Sink){
		func(s *Sink) {},
		func(s *Sink) { s.String("") },
		func(s *Sink) { s.String(""); s.String("") },
		func(s *Sink) { s.String("ab"); s.String("c") },
		func(s *Sink) { s.String("a"); s.String("bc") },
		func(s *Sink) { s.String("abc") },
		func(s *Sink) { s.String("abc"); s.Bytes(nil) },
		func(s *Sink) { s.String("ab\x01\x01c") },
		func(s *Sink) { s.Uint64(1) },
		func(s *Sink) { s.Int64(1) },
		func(s *Sink) { s.Float64(math.Float64frombits(1)) },
		func(s *Sink) { s.Bytes([]byte{1, 0, 0, 0, 0, 0, 0, 0}) },
		func(s *Sink) { s.Bool(true) },
		func(s *Sink) { s.Bool(false) },
		func(s *Sink) { s.Bool(true); s.Bool(false) },
		func(s *Sink) { s.Float64(0) },
		func(s *Sink) { s.Float64(math.NaN()) },
		func(s *Sink) { s.Int64(-1) },
		func(s *Sink) { s.Uint64(math.MaxUint64) },
		func(s *Sink) { s.String(strings.Repeat("x", 300)) },
	} {
		key := fields(put)
		if other, ok := seen[key]; ok {
			t.Errorf("fields %d and %d are both %q", i, other, key)
		}
		seen[key] = i
	}
	for want, put := range map[string]func(s *Sink){
		"\x01\x02ab\x02\x03\x01\x00\x00\x00\x00\x00\x00": func(s *Sink) { s.String("ab"); s.Uint64(259) },
		"\x03\xff\xff\xff\xff\xff\xff\xff\xff\x05\x01":   func(s *Sink) { s.Int64(-1); s.Bool(true) },
		"\x04\x00\x00\x00\x00\x00\x00\xf0\x3f\x01\x01a":  func(s *Sink) { s.Float64(1); s.Bytes([]byte("a")) },
		"\x04\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00":   func(s *Sink) { s.Float64(math.Copysign(0, -1)); s.Bool(false) },
		"\x04\x01\x00\x00\x00\x00\x00\xf8\x7f":           func(s *Sink) { s.Float64(math.Float64frombits(0xfff8000000000123)) },
	} {
		if got := fields(put); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
