package harness

import (
	"sync"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
)

// A Drawer draws the options of each opening of a test whose stores lie in files of the system.
type Drawer struct {
	Seed uint64

	mu   sync.Mutex
	n    uint64
	last shale.Options
}

// NewDrawer returns a Drawer that prints what it has drawn last if the test fails.
func NewDrawer(t testing.TB) *Drawer {
	d := &Drawer{Seed: testenv.Seed(t)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("drawn last: %s", OptionsText(&d.last))
		}
	})
	return d
}

// Next draws options.
func (d *Drawer) Next() *shale.Options {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	d.last = DrawOnDisk(d.Seed, d.n)
	o := d.last
	return &o
}

// ReadOnly draws options of a read-only handle.
func (d *Drawer) ReadOnly() *shale.Options {
	o := d.Next()
	o.ReadOnly = true
	return o
}
