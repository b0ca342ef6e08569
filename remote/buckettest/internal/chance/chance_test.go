package chance

import (
	"bytes"
	"context"
	"errors"
	"math/bits"
	"testing"
	"time"
)

// Faults happen as often as their rates say, and the same ones each time.
func TestChoose_Rates(t *testing.T) {
	const calls = 100_000
	var counts [4]int
	rates := Even(3, 0.6)
	for n := range int64(calls) {
		f := Choose(1, n, 3, rates)
		if f != Choose(1, n, 3, rates) {
			t.Fatalf("call %d has two faults", n)
		}
		counts[f]++
	}
	for f, n := range counts {
		want := calls / 5
		if f == 0 {
			want = 2 * calls / 5
		}
		if n < want*9/10 || n > want*11/10 {
			t.Errorf("fault %d happened %d times in %d calls, want about %d", f, n, calls, want)
		}
	}
}

// Cut leaves less, Flip another bit, and both leave the caller's bytes alone.
func TestSpoil(t *testing.T) {
	var numbers Numbers
	data := []byte("some bytes")
	lengths, places := make(map[int]bool), make(map[int]bool)
	for range 2000 {
		random := numbers.Next()
		cut, flipped := Cut(data, random), Flip(data, random)
		if len(cut) >= len(data) || !bytes.HasPrefix(data, cut) {
			t.Fatalf("Cut = %q", cut)
		}
		lengths[len(cut)] = true
		changed := 0
		for i := range data {
			if n := bits.OnesCount8(data[i] ^ flipped[i]); n > 0 {
				changed += n
				places[i*8+bits.TrailingZeros8(data[i]^flipped[i])] = true
			}
		}
		if changed != 1 || string(data) != "some bytes" {
			t.Fatalf("Flip = %q, of %q", flipped, data)
		}
	}
	if len(lengths) != len(data) || len(places) != 8*len(data) {
		t.Errorf("Cut left %d lengths, and Flip changed %d bits, want %d and %d", len(lengths), len(places), len(data), 8*len(data))
	}
	if len(Cut(nil, 5)) > 0 || len(Flip(nil, 5)) > 0 {
		t.Error("nothing was spoiled, and became something")
	}
}

// Wait ends with its context.
func TestWait_Context(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Wait(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait = %v", err)
	}
	if err := Wait(context.Background(), time.Millisecond); err != nil {
		t.Errorf("Wait = %v", err)
	}
}
