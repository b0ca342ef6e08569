package remote

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

func noNote(uint64) error { return nil }

// addTable returns a step that adds a table.
func addTable(num base.FileNum) *object.Step {
	table := remotetest.ExampleTable(num)
	table.MinSeq, table.MaxSeq = base.Seq(num), base.Seq(num)
	return &object.Step{
		Written: remotetest.ExampleTime, LastTableSeq: uint64(num),
		Edit: &manifest.Edit{Added: []manifest.Added{{Level: 0, Run: uint64(num), Table: table}}},
	}
}

// beginChain returns the chain of the first owner of an empty bucket.
func beginChain(t testing.TB, b Bucket) *chain.Chain {
	t.Helper()
	c, err := chain.LoadChain(context.Background(), b, remotetest.ExampleStore, 0)
	mustNil(t, err)
	if c.Step != nil || c.N() != 0 {
		t.Fatalf("an empty bucket has the step %+v", c.Step)
	}
	c.Epoch, c.Writer, c.Now = 1, 77, func() time.Time { return remotetest.ExampleTime }
	publish(t, c, b, &object.Step{Kind: object.StepClaim, Written: remotetest.ExampleTime})
	return c
}

// publish appends a step.
func publish(t testing.TB, c *chain.Chain, b Bucket, s *object.Step) {
	t.Helper()
	mustNil(t, c.Publish(context.Background(), b, s, noNote))
}

// PutState writes the state of a chain.
func putState(t testing.TB, c *chain.Chain, b Bucket) {
	t.Helper()
	src, err := c.State.Encode(nil)
	mustNil(t, err)
	mustNil(t, PutObject(context.Background(), b, c.State.Name(), src, true))
}

// tablesOf returns the numbers of the tables of a state, in ascending order.
func tablesOf(s *object.State) []uint64 {
	var nums []uint64
	for table := range s.Tables.Version.Tables() {
		nums = append(nums, uint64(table.Num))
	}
	slices.Sort(nums)
	return nums
}

// fiveSteps makes a chain: a claim, tables 2 to 5 in the steps of these numbers, the state after step
// 3 and the floor 3 in step 5.
func fiveSteps(t testing.TB, b Bucket) *chain.Chain {
	c := beginChain(t, b)
	for n := base.FileNum(2); n <= 5; n++ {
		s := addTable(n)
		if n == 5 {
			s.Floor = 3
		}
		publish(t, c, b, s)
		if n == 3 {
			putState(t, c, b)
		}
	}
	return c
}

// TestChain_Stray lets a stopped writer create a step under a name that was superseded and deleted. Neither
// it nor readers may believe in it.
func TestChain_Stray(t *testing.T) {
	ctx := context.Background()
	b := NewMem()
	own := beginChain(t, b)
	publish(t, own, b, addTable(2))
	stopped, err := chain.LoadChain(ctx, b, remotetest.ExampleStore, 0)
	mustNil(t, err)
	stopped.Epoch, stopped.Writer = own.Epoch, own.Writer
	reader, err := chain.LoadChain(ctx, b, remotetest.ExampleStore, 0)
	mustNil(t, err)
	for n := base.FileNum(3); n <= 6; n++ {
		publish(t, own, b, addTable(n))
	}
	putState(t, own, b)
	publish(t, own, b, &object.Step{Written: remotetest.ExampleTime, Floor: 6})
	for n := range uint64(6) {
		mustNil(t, b.Delete(ctx, object.StepName(n)))
	}
	if err := stopped.Publish(ctx, b, addTable(99), noNote); !errors.Is(err, ErrFenced) {
		t.Errorf("a writer creates step 3 again: %v", err)
	}
	if _, err := b.Stat(ctx, object.StepName(3)); err != nil {
		t.Fatalf("there is no stray: %v", err)
	}
	if step, err := reader.Next(ctx, b); !errors.Is(err, ErrSnapshotGone) {
		t.Errorf("a reader sees the stray %+v: %v", step, err)
	}
	if _, err := chain.LoadChain(ctx, b, remotetest.ExampleStore, 3); !errors.Is(err, ErrSnapshotGone) {
		t.Errorf("the stray is loaded: %v", err)
	}
}

// TestPublish_OwnAttempt checks the four ways in which the name of a step can be taken: by the same bytes, by
// an earlier attempt of the same writer, and by other writers, before it and behind it.
func TestPublish_OwnAttempt(t *testing.T) {
	ctx := context.Background()
	b := NewMem()
	own := beginChain(t, b)
	lost, errLost := remotetest.NewFake(b), errors.New("the answer is lost")
	lost.Hook(nil, func(call, _ string) error {
		if call == "put" {
			return errLost
		}
		return nil
	})
	first := addTable(2)
	if err := own.Publish(ctx, lost, first, noNote); !errors.Is(err, errLost) || own.N() != 1 {
		t.Fatalf("the answer was lost: %v, step %d", err, own.N())
	}
	again := *first
	if err := own.Publish(ctx, b, &again, noNote); err != nil || own.N() != 2 {
		t.Fatalf("the same step again: %v, step %d", err, own.N())
	}
	if err := own.Publish(ctx, lost, addTable(3), noNote); !errors.Is(err, errLost) {
		t.Fatal(err)
	}
	both := addTable(3)
	both.Edit.Added = append(both.Edit.Added, addTable(4).Edit.Added...)
	if err := own.Publish(ctx, b, both, noNote); !errors.Is(err, chain.ErrOtherStep) {
		t.Fatalf("another step in the place of an earlier attempt: %v", err)
	}
	if got := tablesOf(own.State); own.N() != 3 || !slices.Equal(got, []uint64{2, 3}) {
		t.Errorf("after it the chain goes up to %d with the tables %v", own.N(), got)
	}

	other, err := chain.LoadChain(ctx, b, remotetest.ExampleStore, 0)
	mustNil(t, err)
	other.Epoch, other.Writer = 2, 78
	publish(t, other, b, &object.Step{Kind: object.StepClaim, Written: remotetest.ExampleTime})
	if err := own.Publish(ctx, b, addTable(4), noNote); !errors.Is(err, ErrFenced) || own.N() != 3 {
		t.Errorf("after a claim by another writer: %v, step %d", err, own.N())
	}
	refused := errors.New("the disk is full")
	if err := other.Publish(ctx, b, addTable(5), func(n uint64) error { return refused }); err != refused || other.N() != 4 {
		t.Errorf("a step that can't be noted: %v, step %d", err, other.N())
	}
	if n, err := chain.NewestStep(ctx, b, 0); err != nil || n != 4 {
		t.Errorf("a step that can't be noted: the newest is %d, %v", n, err)
	}
}

// TestChain_RefusesWhatDoesNotFollow checks that neither owners nor readers take a step that does not fit
// to the one before it.
func TestChain_RefusesWhatDoesNotFollow(t *testing.T) {
	for what, change := range map[string]func(s *object.Step){
		"another store":           func(s *object.Step) { s.StoreID++ },
		"a number left out":       func(s *object.Step) { s.N++ },
		"a lower floor":           func(s *object.Step) { s.Floor = 1 },
		"a table that is there":   func(s *object.Step) { s.Edit = addTable(5).Edit },
		"another writer":          func(s *object.Step) { s.Writer++ },
		"another epoch":           func(s *object.Step) { s.Epoch++ },
		"a claim of an old epoch": func(s *object.Step) { s.Kind, s.Edit = object.StepClaim, nil },
		"no extents":              func(s *object.Step) { s.Extents = nil },
		"an extent before it":     func(s *object.Step) { s.Extents = []object.Extent{{Log: 9, Length: 9000, Sealed: true}} },
		"a shorter extent":        func(s *object.Step) { s.Extents = []object.Extent{{Log: 10, Length: 4999}} },
	} {
		b := NewMem()
		c := fiveSteps(t, b)
		publish(t, c, b, &object.Step{Written: remotetest.ExampleTime, Extents: []object.Extent{{Log: 10, Length: 5000}}})
		s := addTable(7)
		s.StoreID, s.N, s.Epoch, s.Writer, s.Floor, s.Extents = remotetest.ExampleStore, 7, 1, 77, 3, c.State.Extents
		good := *s
		change(s)
		if err := c.Apply(s); err == nil || c.N() != 6 || len(tablesOf(c.State)) != 4 {
			t.Errorf("%s: %v, step %d", what, err, c.N())
		} else {
			remotetest.MustBeDamage(t, s.Name(), err)
		}
		mustNil(t, c.Apply(&good))
	}
}

// TestReadChecked_EverySize reads objects around the sizes at which it takes more requests.
func TestReadChecked_EverySize(t *testing.T) {
	ctx := context.Background()
	b := NewMem()
	for size := range 12 {
		data := []byte("0123456789ab")[:size]
		mustNil(t, PutObject(ctx, b, "m/1", data, false))
		got, err := chain.ReadChecked(ctx, b, "m/1", 4, 10)
		if size > 10 {
			if err == nil {
				t.Errorf("%d bytes, 10 are allowed: %q", size, got)
			}
		} else if err != nil || string(got) != string(data) {
			t.Errorf("%d bytes: %q, %v", size, got, err)
		}
	}
}

// TestNewestStep_AnyOrder takes the highest number of a list, whatever its order is.
func TestNewestStep_AnyOrder(t *testing.T) {
	mem := NewMem()
	fiveSteps(t, mem)
	b := &remotetest.Fake{Bucket: mem, Instead: remotetest.Instead{OnList: func(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
		return func(yield func(Info, error) bool) {
			_ = yield(Info{Name: object.StepName(5)}, nil) && yield(Info{Name: object.StepName(3)}, nil)
		}
	}}}
	if n, err := chain.NewestStep(t.Context(), b, 0); err != nil || n != 5 {
		t.Errorf("the newest step is %d, %v", n, err)
	}
}

// TestReadObject_Twice changes a byte of each kind of object on its way, once, and then each time.
func TestReadObject_Twice(t *testing.T) {
	b := remotetest.NewFake(NewMem())
	w := startWriter(t, b, 3, shale.Options{})
	w.bulk()
	w.publish()
	w.commit(w.randomChanges())
	w.ship()
	_, err := w.s.Pin(t.Context(), "kept", PinOptions{})
	mustNil(t, err)
	ctx, c := t.Context(), w.s.publish.chain
	mustNil(t, c.PutState(ctx, b))
	segment := w.s.ship.extents[0]
	for what, read := range map[string]func() error{
		"identity": func() error { _, err := chain.ReadIdentity(ctx, b); return err },
		"step":     func() error { _, err := chain.ReadStep(ctx, b, c.StoreID, c.N()); return err },
		"state":    func() error { _, err := chain.ReadState(ctx, b, c.StoreID, c.N()); return err },
		"pin":      func() error { _, err := chain.FindPin(ctx, b, c.StoreID, "kept"); return err },
		"segment": func() error {
			_, err := chain.ReadSegment(ctx, b, c.StoreID, object.Position{Log: segment.Log})
			return err
		},
		"head of a segment": func() error {
			_, err := chain.ReadHead(ctx, b, c.StoreID, object.Position{Log: segment.Log})
			return err
		},
	} {
		left := 1
		b.OnAnswer(func(_ string, p []byte, _ int64) {
			if left--; left >= 0 {
				p[len(p)/2] ^= 8
			}
		})
		if err := read(); err != nil || left >= 0 {
			t.Errorf("%s, changed once: %v, %d answers are left", what, err, left)
		}
		left = 1000
		if err := read(); !object.IsDamage(err) || left < 990 {
			t.Errorf("%s, changed each time: %v, after %d answers", what, err, 1000-left)
		}
		b.OnAnswer(nil)
	}
}
