package shale

import (
	"fmt"
	"testing"
)

// A table that a writer removes next to a reader may be missing in several attempts, one after the other, also if the store keeps
// tables elsewhere: each attempt meets another one.
func TestPatience_TablesElsewhere(t *testing.T) {
	var p patience
	for i := range 2 * stillAttempts {
		if !p.again(fmt.Errorf("%w: table %d", ErrElsewhere, i), true) {
			t.Fatalf("it gives up after %d attempts", i)
		}
	}
	for range 3 {
		if !p.again(ErrElsewhere, true) {
			return
		}
	}
	t.Error("it does not give up a table that is missing each time")
}
