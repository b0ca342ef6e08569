package remote

import (
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// Verify of the local store reads the tables of the bucket too, with long GETs, and finds what is damaged there. The event names the
// object, and the file by which the store knows the table. Without a listener it is logged, as trouble is.
func TestEvict_Verify(t *testing.T) {
	b, disk := remotetest.NewFake(NewMem()), vfs.NewMem()
	o := manual(disk)
	evicting(o)
	o.Store.TableSize = 8 << 20
	var events locked
	o.Store.OnEvent = func(e shale.Event) {
		if e.Kind == shale.EventCorruption {
			fmt.Fprintln(&events, e.Err)
		}
	}
	model := make(map[string]string)
	s := openStore(t, "db", b, o)
	fillRandom(t, s, model, 20_000)
	mustNil(t, s.DB().Compact(t.Context(), shale.Range{}))
	settleEvicted(t, s)
	all := lacking(t, disk)
	bytes := int64(0)
	for _, table := range all {
		bytes += table.Size
	}
	gets, largest := b.During(func() { mustNil(t, s.DB().Verify(t.Context())) })
	t.Logf("%d GETs of up to %d bytes for %d tables with %d bytes", gets, largest, len(all), bytes)
	if most := 6*len(all) + int(bytes>>22); gets == 0 || gets > most {
		t.Errorf("%d GETs for %d tables with %d bytes, want %d at most", gets, len(all), bytes, most)
	}
	num := all[len(all)-1].Num
	name := object.TableName(uint64(num))
	data, err := ReadObject(t.Context(), b, name, 1<<30)
	mustNil(t, err)
	mustNil(t, b.Delete(t.Context(), name))
	mustNil(t, PutObject(t.Context(), b, name, remotetest.Flipped(data, 4*len(data)), true))
	if err := s.DB().Verify(t.Context()); !object.IsDamage(err) || !strings.Contains(err.Error(), base.TableName(num)) {
		t.Errorf("with a damaged object: %v", err)
	}
	if said := events.String(); !strings.Contains(said, name) || !strings.Contains(said, base.TableName(num)) {
		t.Errorf("the events say %q, want %s and %s", said, name, base.TableName(num))
	}
	mustNil(t, s.Close())
	var logged locked
	before, flags := slog.Default(), log.Flags()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	defer func() {
		slog.SetDefault(before)
		log.SetFlags(flags) // which SetDefault has changed, like the output
		log.SetOutput(os.Stderr)
	}()
	o.Store.OnEvent = nil
	s = openStore(t, "db", b, o)
	(&opening{Store: s}).logTrouble(shale.Event{Kind: shale.EventStallBegin})
	if said := logged.String(); said != "" {
		t.Errorf("the log has %q, which is no trouble", said)
	}
	if err := s.DB().Verify(t.Context()); !object.IsDamage(err) || !strings.Contains(logged.String(), name) {
		t.Errorf("without a listener: %v, the log has %q", err, logged.String())
	}
	if r, err := Verify(t.Context(), b, true); err != nil || len(r.Findings) != 1 || r.Findings[0].Object != name {
		t.Errorf("the bucket: %+v, %v", r.Findings, err)
	}
}

// A locked is a buffer for several goroutines.
type locked struct {
	mu sync.Mutex // protects the following field
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
