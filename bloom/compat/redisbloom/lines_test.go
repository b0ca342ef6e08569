package redisbloom

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/shaledb/shale/bloom"
)

// A kept filter is a shape with its bits.
type kept struct {
	Shape
	links [][]byte
}

func keep(t testing.TB, o Options) *kept {
	t.Helper()
	s, err := NewLineShape(o)
	if err != nil {
		t.Fatal(err)
	}
	return &kept{Shape: s}
}

func (k *kept) has(key []byte) bool {
	for i, b := range k.links {
		all := true
		for n := range k.Positions(i, key) {
			if all = b[n/8]&(1<<(n%8)) != 0; !all {
				break
			}
		}
		if all {
			return true
		}
	}
	return false
}

// add adds a key unless it may be there.
func (k *kept) add(t testing.TB, key []byte) error {
	t.Helper()
	if k.has(key) {
		return nil
	}
	if err := k.Count(); err != nil {
		return err
	}
	for len(k.links) < k.Links() {
		k.links = append(k.links, make([]byte, k.LinkBytes(len(k.links))))
	}
	last := k.Links() - 1
	line := -1
	for n := range k.Positions(last, key) {
		if at := int(n / lineBits); line >= 0 && at != line {
			t.Fatalf("%q has bits in the lines %d and %d", key, line, at)
		}
		line = int(n / lineBits)
		k.links[last][n/8] |= 1 << (n % 8)
	}
	return nil
}

// Filters that are full have no more false positives than was asked for, with one link or many.
func TestLines_Measured(t *testing.T) {
	const asked = 200_000
	for _, rate := range []float64{0.25, 0.1, 0.01, 0.001, 0.0001} {
		for _, test := range []struct {
			Options
			items, links int
		}{
			{Options{Capacity: 1, NonScaling: true}, 1, 1},
			{Options{Capacity: 10, NonScaling: true}, 10, 1},
			{Options{Capacity: 100, NonScaling: true}, 100, 1},
			{Options{Capacity: 1000, NonScaling: true}, 1000, 1},
			{Options{Capacity: 50_000, NonScaling: true}, 50_000, 1},
			{Options{Capacity: 100}, 100 * (1<<9 - 1), 9},
			{Options{Capacity: 1000, Expansion: 1}, 30_000, 30},
			{Options{Capacity: 10, Expansion: 4}, 10 * (1<<14 - 1) / 3, 7},
		} {
			test.ErrorRate = rate
			k := keep(t, test.Options)
			var keys [][]byte
			for i := 0; k.Info().Items < uint64(test.items); i++ {
				key := fmt.Append(nil, "key ", i)
				if err := k.add(t, key); err != nil {
					t.Fatal(err)
				}
				keys = append(keys, key)
			}
			for _, key := range keys {
				if !k.has(key) {
					t.Fatalf("%+v: %s is not there any more", test.Options, key)
				}
			}
			passed := 0
			for i := range asked {
				if k.has(fmt.Append(nil, "absent ", i)) {
					passed++
				}
			}
			got, most := float64(passed)/asked, rate+3*math.Sqrt(rate/asked)
			if got > most || k.Links() != test.links {
				t.Errorf("%+v: %v of absent keys pass, in %d links", test.Options, got, k.Links())
			}
			i := k.Info()
			t.Logf("rate %v, %d items, %d links: %.4g pass, %.4g bits an item", rate, i.Items, i.Filters, got, float64(8*(i.Size-32-64*uint64(i.Filters)))/float64(i.Items))
		}
	}
}

// The sizes are enough for each rate in a link of very many lines, and hardly more than the best number of hashes needs.
func TestLines_Rates(t *testing.T) {
	for n := 2.0; n <= 38; n += 0.25 {
		rate := math.Exp2(-n)
		l := link{entries: 1 << 20}
		if err := l.setLines(rate); err != nil {
			t.Fatal(err)
		}
		if got := passes(l.bpe, l.hashes); got > rate {
			t.Errorf("2^-%v: %d hashes and %v bits an item give 2^%v", n, l.hashes, l.bpe, math.Log2(got))
		}
		fewer := l.bpe / (1 + 0.4*rate) * 0.95
		for k := uint32(1); k < 40; k++ {
			if passes(fewer, k) < rate {
				t.Errorf("2^-%v: %d hashes and %v bits an item do, instead of %d and %v", n, k, fewer, l.hashes, l.bpe)
				break
			}
		}
	}
}

// passes returns the share of absent keys that a filter lets pass whose lines have this many bits a key. How many keys a line
// has follows Poisson's distribution.
func passes(bits float64, hashes uint32) (p float64) {
	mean := lineBits / bits
	weight := math.Exp(-mean)
	for i := 0.0; i < mean+40*math.Sqrt(mean)+60; i++ {
		p += weight * math.Pow(-math.Expm1(i*float64(hashes)*math.Log1p(-1.0/lineBits)), float64(hashes))
		weight *= mean / (i + 1)
	}
	return p
}

// The header, and the bits of a key, are the same for ever. The sizes of new links may change.
func TestLines_Golden(t *testing.T) {
	const header = "0100000000000000010000000500000003000000" + // a key, a link, options, expansion
		"c00b000000000000005e00000000000001000000000000" + "00691d554d10750f3f" + "3c131ac18dc63740" + "0c000000e80300000000000000" + "02"
	b, err := hex.DecodeString(header)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseShape(b)
	if err != nil || hex.EncodeToString(s.Header()) != header || s.LinkBytes(0) != 3008 {
		t.Errorf("the header is %x of a link with %d bytes, %v, want %s", s.Header(), s.LinkBytes(0), err, header)
	}
	if got, want := fmt.Sprint(slices.Collect(s.Positions(0, []byte("a key")))), "[12852 12851 13087 12922 13025 13220 13125 13141 13023 13205 12856 12868]"; got != want {
		t.Errorf("the positions are %s, want %s", got, want)
	}
	k := keep(t, Options{Capacity: 1000, ErrorRate: 0.0001, Expansion: 3})
	if err := k.add(t, []byte("a key")); err != nil || k.Info() != s.Info() {
		t.Errorf("a new one is %+v, %v, want %+v", k.Info(), err, s.Info())
	}
}

// A header comes back as it was. RedisBloom's reader refuses it, and damage is refused.
func TestLines_Header(t *testing.T) {
	k := keep(t, Options{Capacity: 3})
	for i := range 100 {
		if err := k.add(t, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	header := k.Header()
	parsed, err := ParseShape(header)
	if err != nil || !parsed.Lines() || parsed.Info() != k.Info() || !slices.Equal(parsed.Header(), header) || k.Links() < 5 {
		t.Errorf("the shape comes back as %+v, %v, want %+v", parsed.Info(), err, k.Info())
	}
	if err := new(Loader).LoadChunk(1, header); !errors.Is(err, bloom.ErrDamaged) {
		t.Errorf("a filter of RedisBloom loads it: %v", err)
	}
	if plain, err := ParseShape(header[:len(header)-1]); err == nil {
		t.Errorf("without its mark it is a filter of RedisBloom, %+v", plain.Info())
	}
	for at, to := range map[int]byte{
		12: 7, headerLen: 1, headerLen + 8: 9, headerLen + 24 + 7: 0x80, headerLen + 41: 0x80, headerLen + 52: 1, len(header) - 1: 3,
	} {
		damaged := slices.Clone(header)
		damaged[at] = to
		if s, err := ParseShape(damaged); err == nil {
			t.Errorf("byte %d as %#x is taken: %+v", at, to, s.Info())
		}
	}
}

// What can't have lines is refused, and a link that can't be added changes nothing.
func TestLines_Refused(t *testing.T) {
	for _, o := range []Options{{ErrorRate: 9e-6}, {ErrorRate: 1}, {Capacity: 1 << 40}} {
		if _, err := NewLineShape(o); !errors.Is(err, ErrParameters) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	k := keep(t, Options{Capacity: 1, Expansion: 1, ErrorRate: leastLineFilter})
	for i := 0; ; i++ {
		before := k.Info()
		err := k.Count()
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrParameters) || k.Info() != before || i < 1000 {
			t.Errorf("key %d: %v, and %+v instead of %+v", i, err, k.Info(), before)
		}
		return
	}
}

// Any header is refused, or is one that comes back, and its bits are within its links.
func FuzzShape(f *testing.F) {
	for _, o := range []Options{{}, {Capacity: 1000, ErrorRate: 0.0001, Expansion: 3}, {NonScaling: true}} {
		f.Add(keep(f, o).Header(), []byte("a key"))
		plain, err := NewShape(o)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(plain.Header(), []byte{})
	}
	f.Fuzz(func(t *testing.T, header, key []byte) {
		s, err := ParseShape(header)
		if err != nil {
			return
		}
		if again := s.Header(); !slices.Equal(again, header) {
			t.Fatalf("the header comes back as %x", again)
		}
		for link := range s.Links() {
			for n := range s.Positions(link, key) {
				if n/8 >= s.LinkBytes(link) {
					t.Fatalf("link %d of %d bytes has bit %d", link, s.LinkBytes(link), n)
				}
			}
		}
		if s.Count() == nil {
			if _, err := ParseShape(s.Header()); err != nil {
				t.Fatalf("after a key: %v", err)
			}
		}
	})
}
