package remote

import (
	"fmt"
	"testing"
	"time"

	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// noPins is a time at which no pin has expired.
var noPins = remotetest.ExampleTime

// TestModel_Claims lets writers claim a store and publish at the same time: each epoch has one owner, and what one
// publishes after the claim of another is not believed.
func TestModel_Claims(t *testing.T) {
	play(t, "two writers", 1, 0, false, 1, claimsPart("A", 21), claimsPart("B", 22))
	play(t, "two writers, slow lists", 1, 0, true, 1, claimsPart("A", 21), claimsPart("B", 22))
	play(t, "two writers, a fault", 1, 1, false, 1, claimsPart("A", 21), claimsPart("B", 22))
	play(t, "three writers", 1, 0, false, 1, claimsPart("A", 21), claimsPart("B", 22), claimsPart("C", 23))
}

// TestModel_Fence replaces a writer at each point of shipping, sealing and going on in the next log. Nothing
// that was acknowledged is lost.
func TestModel_Fence(t *testing.T) {
	ships := ownerPart(func(a *modelWriter) { a.ships(object.SegmentData, object.SegmentSeal, object.SegmentData) })
	takes := func(name string, writer uint64) part {
		return func(m *model, b Bucket) {
			a := &modelWriter{m: m, b: b, name: name}
			_ = a.claim(writer) && a.take() && a.ship(object.SegmentData)
		}
	}
	play(t, "one successor", 1, 0, false, 1, ships, takes("B", 21))
	play(t, "one successor, slow lists", 1, 0, true, 1, ships, takes("B", 21))
	play(t, "one successor, a fault", 1, 1, false, 1, ships, takes("B", 21))
	play(t, "two successors", 1, 0, false, 1, ships, takes("B", 21), takes("C", 22))
}

// TestModel_Zombie stops an owner anywhere while its successor takes over, writes, publishes and collects, and
// then lets it go on.
func TestModel_Zombie(t *testing.T) {
	whole := func(w *modelWriter) { _ = w.ship(object.SegmentSeal) && w.publish(0) && w.collect(noPins) }
	collects := successorPart(func(a *modelWriter) {
		_ = a.ship(object.SegmentSeal) && a.publish(0) && a.collect(noPins) && a.ship(object.SegmentData)
	})
	claims := func(m *model, b Bucket) {
		a := &modelWriter{m: m, b: b, name: "A"}
		_ = a.claim(21) && a.take() && a.ship(object.SegmentData) && a.publish(0)
	}
	fences := func(m *model, b Bucket) {
		a := m.resume(b, "A") // it has claimed the store
		_ = a.take() && a.ship(object.SegmentData)
	}
	warm := func(m *model, b Bucket) {
		a := m.resume(b, "A") // a reader that has claimed the store
		_ = a.takeWarm() && a.ship(object.SegmentData)
	}
	play(t, "ships", 2, 0, false, 1, ownerPart(func(a *modelWriter) { a.ships(object.SegmentData, object.SegmentData) }), collects)
	play(t, "publishes", 2, 0, false, 1, ownerPart(func(a *modelWriter) { a.publish(0) }), collects)
	play(t, "collects", 2, 0, false, 1, ownerPart(func(a *modelWriter) { a.collect(noPins) }), collects)
	play(t, "fences", claimed, 0, false, 1, fences, collects)
	play(t, "fences while the first owner ships", claimed, 0, false, 1, warm, collects, func(m *model, b Bucket) { m.resume(b, "O").ship(object.SegmentData) })
	play(t, "claims", 2, 0, false, 1, claims, collects)
	play(t, "ships, publishes and collects", 2, 0, false, 1, ownerPart(whole), collects)
	play(t, "ships, a fault", 2, 1, false, 0.3, ownerPart(func(a *modelWriter) { a.ships(object.SegmentData, object.SegmentData) }), collects)
	play(t, "publishes, a fault", 2, 1, false, 0.3, ownerPart(func(a *modelWriter) { a.publish(0) }), collects)
	play(t, "fences, a fault", claimed, 1, false, 0.3, fences, collects)
	play(t, "claims, a fault", 2, 1, false, 0.1, claims, collects)
	play(t, "ships, publishes and collects, a fault", 2, 1, false, 0.05, ownerPart(whole), collects)
}

// TestModel_HandsOver lets an owner hand the list of segments over at its end, while others take the store over, or after
// that. Nobody puts a fence then, and nothing that was acknowledged is lost, also when the end of the list is collected.
func TestModel_HandsOver(t *testing.T) {
	hands := ownerPart(func(a *modelWriter) { _ = a.ship(object.SegmentData) && a.ship(object.SegmentSeal); a.handOver() })
	takes := func(name string, writer uint64) part {
		return func(m *model, b Bucket) {
			a := &modelWriter{m: m, b: b, name: name}
			_ = a.claim(writer) && a.take() && a.ship(object.SegmentData)
		}
	}
	collects := func(m *model, b Bucket) {
		a := &modelWriter{m: m, b: b, name: "C"}
		_ = a.claim(32) && a.take() && a.ship(object.SegmentSeal) && a.publish(0) && a.collect(noPins) && a.ship(object.SegmentData)
	}
	play(t, "one successor", 1, 0, false, 1, hands, takes("B", 21))
	play(t, "one successor, a fault", 1, 1, false, 0.5, hands, takes("B", 21))
	play(t, "two successors", 1, 0, false, 0.5, hands, takes("B", 21), takes("C", 22))
	play(t, "one that collects", 2, 0, false, 0.5, hands, takes("B", 21), collects)
	for faults, share := range []float64{1, 0.5} {
		for name, parts := range map[string][]part{
			"the next has claimed":             {func(m *model, b Bucket) { a := m.resume(b, "B"); _ = a.take() && a.ship(object.SegmentData) }, collects},
			"another claims, and one collects": {takes("B", 31), collects},
		} {
			t.Run(fmt.Sprint(name, ", faults: ", faults), func(t *testing.T) {
				runScenario(t, &scenario{name: name, faults: faults, parts: parts, prepare: func(b Bucket) {
					modelHistory(b, 2)
					m := newModel(b, findOwner(b))
					m.resume(b, "h").handOver()
					if a := (&modelWriter{m: m, b: b}); name == "the next has claimed" && !a.claim(21) {
						panic(a.m.broken)
					}
				}}, share)
			})
		}
	}
}

// claimed is a history at whose end another writer has claimed the store and not done anything else yet.
const claimed = -1

// TestModel_GoesOn ends the process of an owner at each call, which may take effect later, and opens its directory
// again, while another writer may take over. A copy of the directory is opened, too.
func TestModel_GoesOn(t *testing.T) {
	dies := func(reopen ...string) part {
		return func(m *model, b Bucket) {
			a := m.resume(b.(*buckets.Retry).Bucket, "A") // the first call that fails ends the process
			if a.ship(object.SegmentData) && a.ship(object.SegmentSeal) && a.publish(0) && a.ship(object.SegmentData) {
				return
			}
			for i, name := range reopen {
				again := *a
				again.b, again.name = b, name
				again.goOn(uint64(41 + i))
			}
		}
	}
	copied := func(name string, writer uint64) part {
		return func(m *model, b Bucket) {
			a := m.resume(b, name)
			a.goOn(writer)
		}
	}
	takes := successorPart(func(a *modelWriter) { a.ship(object.SegmentData) })
	play(t, "a directory is opened again", 1, 1, false, 1, dies("A"))
	play(t, "a directory is opened again, a successor", 1, 1, false, 0.5, dies("A"), takes)
	play(t, "a directory is opened again twice", 1, 2, false, 0.5, dies("A", "A"))
	play(t, "a copy is opened", 1, 0, false, 1, copied("A", 41), copied("C", 42))
	play(t, "a copy is opened, a successor", 1, 0, false, 1, copied("A", 41), copied("C", 42), takes)
}

// late is a time at which pins that last an hour have expired.
var late = remotetest.ExampleTime.Add(2 * time.Hour)

// A part is what one actor of a scenario does.
type part func(m *model, b Bucket)

// claimsPart claims the store and publishes a step.
func claimsPart(name string, writer uint64) part {
	return func(m *model, b Bucket) {
		a := &modelWriter{m: m, b: b, name: name}
		if a.claim(writer) {
			a.step(&object.Step{LastTableSeq: a.c.Step.LastTableSeq})
		}
	}
}

func ownerPart(do func(a *modelWriter)) part {
	return func(m *model, b Bucket) { do(m.resume(b, "A")) }
}

func successorPart(do func(a *modelWriter)) part {
	return func(m *model, b Bucket) {
		a := &modelWriter{m: m, b: b, name: "B"}
		if a.claim(31) && a.take() {
			do(a)
		}
	}
}

func readerPart(do func(r *modelReader)) part {
	return func(m *model, b Bucket) { do(&modelReader{m: m, b: b, drawn: m.drawn}) }
}

// play explores what happens when several actors do their parts after a history of n steps.
func play(t *testing.T, name string, n, faults int, slow bool, share float64, parts ...part) {
	t.Run(name, func(t *testing.T) {
		runScenario(t, &scenario{
			name: name, faults: faults, slow: slow, parts: parts,
			prepare: func(b Bucket) {
				modelHistory(b, max(n, 1))
				if a := (&modelWriter{m: newModel(b, nil), b: b}); n == claimed && !a.claim(21) {
					panic(a.m.broken)
				}
			},
		}, share)
	})
}

// TestModel_Pins lets an owner raise the floor and collect, while others pin what it is about to delete, renew
// their pins and give them up. What a pin keeps stays.
func TestModel_Pins(t *testing.T) {
	collects := ownerPart(func(a *modelWriter) { a.collect(late) })
	collectsSoon := ownerPart(func(a *modelWriter) { a.collect(noPins) })
	collectsTwice := ownerPart(func(a *modelWriter) { _ = a.collect(late) && a.delete(0, late) })
	pins := func(step uint64) part { return readerPart(func(r *modelReader) { r.pin(step, 0) }) }
	renews := readerPart(func(r *modelReader) {
		p := r.pin(2, time.Hour)
		for i := 0; i < 2 && p != nil; i++ {
			p = r.renew(p, remotetest.ExampleTime.Add(time.Minute))
		}
	})
	moves := readerPart(func(r *modelReader) { // a pin that takes the place of another
		if p := r.pin(2, time.Hour); p != nil {
			if next := r.renew(p, remotetest.ExampleTime); next != nil {
				r.unpin(p)
			}
		}
	})
	again := readerPart(func(r *modelReader) { // a name that is used again
		if p := r.pin(2, 0); p != nil {
			r.unpin(p)
			r.pin(2, 0)
		}
	})
	play(t, "an old step", 2, 0, false, 1, collects, pins(2))
	play(t, "an old step, slow lists", 2, 0, true, 1, collects, pins(2))
	play(t, "the newest step", 2, 0, false, 1, collects, pins(0))
	play(t, "a renewal", 2, 0, true, 1, collectsTwice, renews)
	play(t, "a pin moves", 2, 0, false, 1, collectsSoon, moves)
	play(t, "a pin moves, slow lists", 2, 0, true, 1, collectsSoon, moves)
	play(t, "a name again, a fault", 2, 1, false, 0.5, collects, again)
	play(t, "two pins", 2, 0, false, 1, collects, pins(2), pins(3))
	play(t, "an owner that was replaced", 2, 0, false, 1, collects, successorPart(func(a *modelWriter) { _ = a.publish(0) && a.collect(late) }), pins(2))
	play(t, "an old step, a fault", 2, 1, false, 0.2, collects, pins(2))
}

// TestModel_Readers lets readers follow the steps while an owner that was stopped creates one that was there
// before.
func TestModel_Readers(t *testing.T) {
	publishes := ownerPart(func(a *modelWriter) { a.publish(0) })
	collects := successorPart(func(a *modelWriter) { _ = a.publish(0) && a.collect(noPins) })
	follows := func(m *model, b Bucket) {
		c := *m.resume(b, "R").c
		c.Epoch, c.Writer = 0, 0
		(&modelReader{m: m, b: b}).follow(&c, 3)
	}
	begins := readerPart(func(r *modelReader) {
		if c := r.load(); c != nil {
			r.follow(c, 1)
		}
	})
	play(t, "a reader follows", 1, 0, false, 1, publishes, collects, follows)
	play(t, "a reader begins", 1, 0, false, 1, publishes, collects, begins)
	play(t, "a reader follows, a fault", 1, 1, false, 0.05, publishes, collects, follows)
}
