package fault

import (
	"sync"
	"testing"

	"github.com/shaledb/shale"
)

// refusals follows the events that tell whether writes are refused.
type refusals struct {
	mu sync.Mutex
	on bool
}

// note checks that beginning and end take turns.
func (r *refusals) note(t testing.TB, e shale.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Kind {
	case shale.EventReadOnly:
		if r.on || e.Err == nil {
			t.Errorf("%v, %v while writes are refused: %v", e.Kind, e.Err, r.on)
		}
		r.on = true
	case shale.EventResumed:
		if !r.on {
			t.Errorf("%v though writes were not refused", e.Kind)
		}
		r.on = false
	}
}

func (r *refusals) refused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.on
}
