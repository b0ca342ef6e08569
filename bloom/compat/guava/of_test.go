package guava

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// A person is a Person of testdata/Person.java.
type person struct {
	id     int32
	name   string
	born   int64
	height float64
	member bool
}

func personOf(i int) person {
	p := person{int32(i)*7919 - 500_000, "J\u00f6rg " + strconv.Itoa(i), int64(i)*int64(i)*2654435761 - 7, float64(i) / 3, i%2 == 0}
	if i%3 == 0 {
		p.name += " \U0001f33c"
	}
	return p
}

func inCharset(c Charset) func(p person, s *Sink) {
	return func(p person, s *Sink) {
		s.PutInt(p.id)
		s.PutString(p.name, c)
		s.PutLong(p.born)
		s.PutDouble(p.height)
		s.PutBoolean(p.member)
	}
}

func others(p person, s *Sink) {
	s.PutByte(byte(p.id))
	s.PutBytes([]byte{1, 0xff})
	s.PutShort(int16(p.id))
	s.PutChar(uint16(p.id))
	s.PutFloat(float32(p.height))
	s.PutUnencodedChars(p.name)
}

// Guava 31.1 with Java 17 wrote these filters by testdata/Person.java. yes is the number of
// values, of 101,000, for which it answered maybe.
func TestOf_AsInJava(t *testing.T) {
	for _, c := range []struct {
		name   string
		yes    int
		funnel func(p person, s *Sink)
	}{
		{"utf-8", 1998, inCharset(UTF8)}, {"iso-8859-1", 2079, inCharset(ISO88591)}, {"us-ascii", 2061, inCharset(USASCII)},
		{"utf-16", 2087, inCharset(UTF16)}, {"utf-16be", 1965, inCharset(UTF16BE)}, {"utf-16le", 1985, inCharset(UTF16LE)}, {"others", 2027, others},
	} {
		compareWithJava(t, c.name, c.yes, c.funnel, personOf)
	}
	numbers := Sequence(func(v int32, s *Sink) { s.PutInt(v) })
	compareWithJava(t, "sequence", 1954, numbers, func(i int) []int32 { return []int32{int32(i), int32(i) * int32(i), -int32(i)} })
}

func compareWithJava[T any](t *testing.T, name string, want int, funnel func(v T, s *Sink), value func(i int) T) {
	t.Helper()
	b, err := os.ReadFile("testdata/person-" + name + ".bf")
	if err != nil {
		t.Fatal(err)
	}
	var read Filter
	if err := read.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	theirs, ours := newOf(&read, funnel), newOf(mustNew(t, Options{Keys: 1000, FPR: 0.01}), funnel)
	yes := 0
	for i := range 101_000 {
		if i < 1000 {
			if err := ours.Add(value(i)); err != nil {
				t.Fatal(err)
			}
		}
		if theirs.MayContain(value(i)) {
			yes++
		} else if i < 1000 {
			t.Fatalf("%s: value %d is denied", name, i)
		}
	}
	if yes != want {
		t.Errorf("%s: %d of 101,000 values may be in the filter, Guava says %d", name, yes, want)
	}
	if !bytes.Equal(filtertest.Marshal(t, ours.Filter()), b) {
		t.Errorf("%s: built anew it is another filter", name)
	}
}

func TestSink(t *testing.T) {
	for _, c := range []struct {
		want string
		put  func(s *Sink)
	}{
		{"", func(s *Sink) {}},
		{"ff", func(s *Sink) { s.PutByte(255) }},
		{"0102", func(s *Sink) { s.PutBytes([]byte{1, 2}) }},
		{"0100", func(s *Sink) { s.PutBoolean(true); s.PutBoolean(false) }},
		{"feff", func(s *Sink) { s.PutShort(-2) }},
		{"3412", func(s *Sink) { s.PutChar(0x1234) }},
		{"feffffff", func(s *Sink) { s.PutInt(-2) }},
		{"0807060504030201", func(s *Sink) { s.PutLong(0x0102030405060708) }},
		{"0000c03f", func(s *Sink) { s.PutFloat(1.5) }},
		{"000000000000f83f", func(s *Sink) { s.PutDouble(1.5) }},
		{"0000000000000080", func(s *Sink) { s.PutDouble(math.Copysign(0, -1)) }},
		{"6100e4003cd83cdf", func(s *Sink) { s.PutUnencodedChars("aä🌼") }},
		{"61c3a4f09f8cbc", func(s *Sink) { s.PutString("aä🌼", UTF8) }},
		{"61c3a4f09f8cbc", func(s *Sink) { s.PutString("aä🌼", 99) }},
		{"61e43f", func(s *Sink) { s.PutString("aä🌼", ISO88591) }},
		{"613f3f", func(s *Sink) { s.PutString("aä🌼", USASCII) }},
		{"feff006100e4d83cdf3c", func(s *Sink) { s.PutString("aä🌼", UTF16) }},
		{"", func(s *Sink) { s.PutString("", UTF16) }},
		{"006100e4d83cdf3c", func(s *Sink) { s.PutString("aä🌼", UTF16BE) }},
		{"6100e4003cd83cdf", func(s *Sink) { s.PutString("aä🌼", UTF16LE) }},
		{"61fdff", func(s *Sink) { s.PutString("a", UTF8); s.PutString("\xff", UTF16LE) }},
	} {
		var s Sink
		c.put(&s)
		if got := hex.EncodeToString(s.Key()); got != c.want {
			t.Errorf("a sink has %s, want %s", got, c.want)
		}
		if s.Reset(); len(s.Key()) != 0 {
			t.Error("Reset leaves something")
		}
	}
}

func TestOf(t *testing.T) {
	people := newOf(mustNew(t, Options{Keys: 100, FPR: 1e-6}), inCharset(UTF8))
	if people.CheckAndAdd(personOf(1)) || !people.CheckAndAdd(personOf(1)) || !people.MayContain(personOf(1)) || people.MayContain(personOf(2)) {
		t.Error("CheckAndAdd tells wrongly")
	}
	var zero Of[person]
	if err := zero.Add(personOf(1)); !errors.Is(err, ErrParameters) {
		t.Errorf("Add to the zero Of: %v", err)
	}
	if !zero.MayContain(personOf(1)) || !zero.CheckAndAdd(personOf(1)) || zero.Filter() != nil {
		t.Error("the zero Of denies a value")
	}
	empty := newOf(new(Filter), inCharset(UTF8))
	if err := empty.Add(personOf(1)); !errors.Is(err, ErrParameters) || !empty.MayContain(personOf(2)) || !empty.CheckAndAdd(personOf(3)) {
		t.Errorf("over the zero filter: %v", err)
	}
	if _, err := NewOf[person](nil, inCharset(UTF8)); !errors.Is(err, ErrParameters) {
		t.Errorf("NewOf of no filter: %v", err)
	}
	if _, err := NewOf[person](new(Filter), nil); !errors.Is(err, ErrParameters) {
		t.Errorf("NewOf of no funnel: %v", err)
	}
}

// newOf is NewOf for arguments that are right.
func newOf[T any](f *Filter, funnel func(t T, s *Sink)) *Of[T] { return bloom.Must(NewOf(f, funnel)) }
