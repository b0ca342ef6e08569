package harness

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A program that fails because of a few of its steps is shortened to these.
func TestShorten(t *testing.T) {
	p := DrawProgram(1, 200, NewSource(ShortKeys), Operations)
	needed := []int{17, 60, 61, 199}
	tries := 0
	fails := func(q Program) error {
		tries++
		for _, i := range needed {
			if !slices.Contains(q.places, i) {
				return nil
			}
		}
		return errors.New("all are there")
	}
	short, err := shorten(p, errors.New("at first"), fails, time.Minute)
	if !slices.Equal(short.places, needed) || err == nil {
		t.Errorf("shortened to %v, %v; want %v", short.places, err, needed)
	}
	for i, place := range short.places {
		if short.Steps[i].String() != p.Steps[place].String() {
			t.Errorf("step %d is %s, want %s", i, short.Steps[i], p.Steps[place])
		}
	}
	if tries > 600 {
		t.Errorf("%d tries", tries)
	}
	if text := formatPlaces(short.places); text != "17,60-61,199" {
		t.Errorf("written as %s", text)
	}
}

// What names steps is read as it was written.
func TestPlaces(t *testing.T) {
	for _, places := range [][]int{{0}, {0, 1, 2}, {3, 5, 6, 7, 9}, {1, 3, 5}} {
		got, err := parsePlaces(formatPlaces(places))
		if err != nil || !slices.Equal(got, places) {
			t.Errorf("%v is read as %v, %v", places, got, err)
		}
	}
	for _, bad := range []string{"", "a", "1-", "1,,2"} {
		if got, err := parsePlaces(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

// The same seed draws the same program, and part of a program can be run: a step that used what a
// left-out one had opened does without.
func TestProgram_TheSameEachTime(t *testing.T) {
	draw := func() Program { return DrawProgram(7, 300, NewSource(AllKeys), Operations, LifeOperations) }
	a, b := draw(), draw()
	for i := range a.Steps {
		if a.Steps[i].String() != b.Steps[i].String() {
			t.Fatalf("step %d is %s and then %s", i, a.Steps[i], b.Steps[i])
		}
	}
	for n := range 3 {
		var places []int
		for i := n; i < len(a.Steps); i += 3 {
			places = append(places, i)
		}
		if err := RunLife(NewLife(7), a.part(places)); err != nil {
			t.Error(err)
		}
	}
}

// A field that is gone is named.
func TestHidden_NamesTheField(t *testing.T) {
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "noSuchField") {
			t.Errorf("the panic says %q", said)
		}
	}()
	hidden[int](new(Life), "noSuchField")
}
