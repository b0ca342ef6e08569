package remote

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// If the filters and indexes alone take LocalBytes, Status says so and what would do, and writes go on. That is over with the
// next Open that has as much, or when the tables have gone.
func TestEvict_TightIsTold(t *testing.T) {
	b, o := remotetest.NewFake(NewMem()), manual(vfs.NewMem())
	o.Store.MemtableSize, o.Store.TableSize, o.Store.CompactionWorkers, o.Store.FilterBits = 16<<10, 16<<10, 0, 30
	o.LocalBytes = 128 << 10
	model := make(map[string]string)
	s := openStore(t, "db", b, o)
	write := func(n int) {
		t.Helper()
		for range n {
			key := fmt.Sprintf("key%08d", len(model)*7919%100_000_007)
			mustNil(t, s.DB().Put([]byte(key), nil))
			model[key] = ""
		}
		mustNil(t, s.DB().Flush(t.Context()))
		mustNil(t, s.Publish(t.Context()))
	}
	tight := regexp.MustCompile(`LocalBytes of 131072 \(128\.0 KiB\) .* take (\d+) bytes .* LocalBytes of (\d+) \(`)
	told := func() []string {
		failing := s.Status().Failing
		if failing == nil {
			return nil
		}
		return tight.FindStringSubmatch(failing.Error())
	}
	for rounds := 0; told() == nil; rounds++ {
		if rounds == 100 {
			t.Fatalf("%d keys, and %d bytes of copies: %+v", len(model), s.evicting.tables.CopyBytes(), s.Status())
		}
		write(500)
	}
	before := s.Status()
	write(3000)
	if now := s.Status(); now.Step == before.Step || now.Away != nil || s.DB().Err() != nil {
		t.Errorf("with a budget that is too small: %+v, %v", now, s.DB().Err())
	}
	sameMap(t, "with a budget that is too small", contents(t, s.DB()), model)
	said := told()
	if said == nil {
		t.Fatalf("it is not told any more: %v", s.Status().Failing)
	}
	take, terr := strconv.ParseInt(said[1], 10, 64)
	least, lerr := strconv.ParseInt(said[2], 10, 64)
	mustNil(t, errors.Join(terr, lerr, s.Close()))
	if take < 128<<10*6/8 || least < take {
		t.Errorf("said %q", said[0])
	}
	o.LocalBytes = least
	s = openStore(t, "db", b, o)
	write(10)
	if err := errors.Join(s.evicting.tight(), s.Status().Failing); err != nil || s.evicting.tables.CopyBytes() < take {
		t.Errorf("with %d bytes of copies: %v", s.evicting.tables.CopyBytes(), err)
	}
	mustNil(t, s.Close())
	o.LocalBytes = 128 << 10
	s = openStore(t, "db", b, o)
	testenv.WaitFor(t, "the small budget to be told", func() bool { return told() != nil })
	mustNil(t, s.DB().DeleteRange(nil, nil))
	clear(model)
	mustNil(t, s.DB().Compact(t.Context(), shale.Range{}))
	testenv.WaitFor(t, "it to be over", func() bool {
		write(1)
		return s.Status().Failing == nil
	})
	sameMap(t, "in the end", contents(t, s.DB()), model)
}
