package redisbloom

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// A shape with bits that a program keeps itself is the filter, byte for byte.
func TestShape_IsTheFilter(t *testing.T) {
	for _, o := range []Options{{}, {Capacity: 7, ErrorRate: 0.3, Expansion: 1}, {Capacity: 50, ErrorRate: 0.001, NonScaling: true}} {
		f, err := NewFilter(o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewShape(o)
		if err != nil {
			t.Fatal(err)
		}
		bits := [][]byte{make([]byte, s.LinkBytes(0))}
		has := func(link int, key []byte) bool {
			for n := range s.Positions(link, key) {
				if bits[link][n/8]&(1<<(n%8)) == 0 {
					return false
				}
			}
			return true
		}
		for i := range 300 {
			key := fmt.Append(nil, i*i)
			there, want := false, f.MayContain(key)
			for link := range s.Links() {
				there = there || has(link, key)
			}
			if there != want {
				t.Fatalf("%+v: key %d: %v, want %v", o, i, there, want)
			}
			wantErr := f.Add(key)
			if there {
				continue
			}
			err := s.Count()
			if errors.Is(err, ErrFull) != errors.Is(wantErr, ErrFull) {
				t.Fatalf("%+v: Count of key %d: %v, want %v", o, i, err, wantErr)
			}
			if err != nil {
				continue
			}
			if s.Links() > len(bits) {
				bits = append(bits, make([]byte, s.LinkBytes(len(bits))))
			}
			for n := range s.Positions(s.Links()-1, key) {
				bits[s.Links()-1][n/8] |= 1 << (n % 8)
			}
			parsed, err := ParseShape(s.Header())
			if err != nil || parsed.Info() != f.Info() {
				t.Fatalf("%+v: after key %d: %+v, %v, want %+v", o, i, parsed.Info(), err, f.Info())
			}
		}
		got := s.Header()
		for _, b := range bits {
			got = append(got, b...)
		}
		want, err := f.MarshalBinary()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: %d bytes differ from the filter's %d, %v", o, len(got), len(want), err)
		}
	}
}

// The lines have the form of RedisBloom's.
func TestShape_Debug(t *testing.T) {
	s, err := NewShape(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 101 {
		if err := s.Count(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"size:101", "bytes:144 bits:1152 hashes:8 hashwidth:64 capacity:100 size:100 ratio:0.005",
		"bytes:312 bits:2496 hashes:9 hashwidth:64 capacity:200 size:1 ratio:0.0025"}
	if got := s.Debug(); !slices.Equal(got, want) {
		t.Errorf("Debug is %q, want %q", got, want)
	}
}

// A shape of a damaged header, or of none, is refused.
func TestShape_Damage(t *testing.T) {
	if _, err := ParseShape([]byte("x")); err == nil {
		t.Error("a header of a byte is taken")
	}
	if n := (Shape{}).Links(); n != 0 || (Shape{}).Info().Filters != 0 || len((Shape{}).Header()) == 0 {
		t.Errorf("the zero shape has %d links, %+v, a header of %x", n, (Shape{}).Info(), (Shape{}).Header())
	}
	if err := (Shape{}).Count(); !errors.Is(err, ErrParameters) {
		t.Errorf("Count of the zero value: %v", err)
	}
	if _, err := NewShape(Options{ErrorRate: 2}); !errors.Is(err, ErrParameters) {
		t.Errorf("an error rate of 2: %v", err)
	}
}
