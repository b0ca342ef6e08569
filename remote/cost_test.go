package remote

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/cost"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// A costTest is a store whose requests are counted. Its time is counted in writes.
type costTest struct {
	*testing.T
	b             *remotetest.Fake
	s             *Store
	random        *rand.Rand
	noise         *rand.ChaCha8
	ship, publish int // writes between two calls
}

const costKeys = 30_000

// write puts n keys. Before each step, compactions have caught up, as they do in a store that is written to slowly.
func (c *costTest) write(n int, number func(i int) int) {
	value := make([]byte, 100)
	for i := 1; i <= n; i++ {
		_, _ = c.noise.Read(value) // it never fails
		mustNil(c, c.s.DB().Put(fmt.Appendf(nil, "key%08d", number(i)), value))
		switch {
		case i%c.publish == 0:
			testenv.WaitFor(c, "compactions", func() bool {
				m := c.s.DB().Metrics()
				return m.CompactionDebt == 0 && m.Compacting+m.Flushing == 0
			})
			mustNil(c, c.s.Publish(c.Context()))
		case i%c.ship == 0:
			mustNil(c, c.s.Ship(c.Context()))
		}
	}
}

// update puts n keys that are there.
func (c *costTest) update(n int) { c.write(n, func(int) int { return c.random.IntN(costKeys) }) }

// ask looks up n keys, each once.
func (c *costTest) ask(n int, form string, want bool) {
	c.Helper()
	for i := range n {
		if has, err := c.s.DB().Has(fmt.Appendf(nil, form, i*7919%costKeys)); err != nil || has != want {
			c.Fatalf("Has: %v, %v", has, err)
		}
	}
}

// during returns how many requests of a kind fn makes.
func (c *costTest) during(call, folder string, fn func()) float64 {
	before := c.b.Count(call, folder)
	fn()
	return float64(c.b.Count(call, folder) - before)
}

// TestCost holds what package cost computes against the requests of a real store that has many times its room, whose keys are
// written again and again, and which is asked for keys. The GETs of compactions are not among them: the cache of such a small
// store has one page, and each read of another table fetches it again.
func TestCost(t *testing.T) {
	testenv.SkipRace(t)
	c := &costTest{T: t, b: remotetest.NewFake(NewMem()), random: rand.New(rand.NewPCG(1, 2)), noise: rand.NewChaCha8([32]byte{}), ship: 50, publish: 100}
	o := manual(vfs.NewMem())
	evicting(o)
	o.Store.MemtableSize, o.Store.TableSize, o.Store.FilterBits = 32<<10, 32<<10, 10 // so that there are false positives to count
	c.s = openStore(t, "db", c.b, o)
	c.write(costKeys, func(i int) int { return i * 7919 % costKeys })
	c.update(costKeys / 3)
	settleEvicted(t, c.s)

	folders := map[string][2]string{
		"segments of the log PUT": {"put", "w/"}, "steps PUT": {"put", "m/"}, "tables PUT": {"put", "t/"}, "tables GET": {"stat", "t/"},
	}
	counts := make(map[string]float64)
	for name, of := range folders {
		counts[name] = -float64(c.b.Count(of[0], of[1]))
	}
	before := c.s.DB().Metrics()
	const updates = costKeys * 2 / 3
	c.update(updates)
	after := c.s.DB().Metrics()
	for name, of := range folders {
		counts[name] += float64(c.b.Count(of[0], of[1]))
	}
	flushed := float64(after.FlushBytes - before.FlushBytes)
	t.Logf("%d flushes of %.0f bytes; %d compactions, which read %.2f and write %.2f times that", after.Flushes-before.Flushes, flushed/float64(after.Flushes-before.Flushes),
		after.Compactions-before.Compactions, float64(after.CompactReadBytes-before.CompactReadBytes)/flushed, float64(after.CompactBytes-before.CompactBytes)/flushed)
	settleEvicted(t, c.s)
	const absent, present = costKeys, 3000
	counts["absent keys GET"] = c.during("read", "t/", func() { c.ask(absent, "key%08d/", false) })
	counts["present keys GET"] = c.during("read", "t/", func() { c.ask(present, "key%08d", true) })

	bytes := 0.0
	for _, l := range after.Levels {
		bytes += float64(l.Bytes)
	}
	// A thousand writes are a second.
	const second = 1000
	took, every := float64(updates)/second, time.Second/second
	for _, row := range (cost.Use{
		Bytes: bytes, Writes: second, Key: 11, Value: 100, Compressed: 1, Absent: absent / took, Present: present / took, FalsePositives: after.PredictedFPR(),
		LocalBytes: testBudget, Memtable: float64(o.Store.MemtableSize), Table: float64(o.Store.TableSize),
		Ship: time.Duration(c.ship) * every, Publish: time.Duration(c.publish) * every, Flush: time.Hour, Retain: 24 * time.Hour,
	}).Rows() {
		name, computed := row.Name+" "+row.Kind.String(), row.Amount*took
		if row.Name == "steps" {
			computed /= 2 // the other half are LISTs
		}
		got, counted := counts[name]
		t.Logf("%s: computed %.0f, counted %.0f: %s", name, computed, got, row.How)
		if delete(counts, name); counted && (computed < 0.7*got || computed > 1.3*got) {
			t.Errorf("%s: computed %.0f, counted %.0f", name, computed, got)
		}
	}
	if len(counts) > 0 {
		t.Errorf("nothing is computed for %v", counts)
	}
}
