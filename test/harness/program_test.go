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

// A field that is gone is named.
func TestHidden_NamesTheField(t *testing.T) {
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "noSuchField") {
			t.Errorf("the panic says %q", said)
		}
	}()
	hidden[int](new(Life), "noSuchField")
}
