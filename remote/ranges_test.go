package remote

import (
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// TestRanges_Alone publishes range deletes with which no table comes or goes, and one that takes all tables away. Each is a step.
// After it a reader, a restored store and a writer that takes over lack what was deleted.
func TestRanges_Alone(t *testing.T) {
	b := NewMem()
	o := manual(vfs.NewMem())
	s := openStore(t, "db", b, o)
	model := map[string]string{}
	put(t, s, model, "a", 10)
	put(t, s, model, "b", 10)
	mustNil(t, s.DB().Flush(t.Context()))
	mustNil(t, s.Publish(t.Context()))
	r := openTestReader(t, b, ReaderOptions{})
	for i, d := range []struct {
		lower, upper string
		tables       int
	}{{"a0002", "a0005", 1}, {"b0009", "", 1}, {"", "", 0}} {
		op := shale.Op{Kind: shale.OpDeleteRange, Key: []byte(d.lower), Value: []byte(d.upper)}
		if d.upper == "" {
			op.Value = nil
		}
		mustNil(t, op.Apply(s.DB()))
		applyTo(model, op)
		mustNil(t, s.DB().Flush(t.Context()))
		if d.tables == 0 {
			mustNil(t, s.DB().Compact(t.Context(), shale.Range{}))
		}
		if n := len(s.DB().Inspect().Tables()); n != d.tables {
			t.Fatalf("range delete %d leaves %d tables, want %d", i, n, d.tables)
		}
		before := s.Status().Step
		mustNil(t, s.Publish(t.Context()))
		if s.Status().Step == before {
			t.Errorf("range delete %d was not published", i)
		}
		mustNil(t, r.Refresh(t.Context()))
		sameMap(t, "the reader", contents(t, r), model)
		sameMap(t, "a new reader", contents(t, openTestReader(t, b, ReaderOptions{})), model)
		sameMap(t, "the restored store", restoredContents(t, b), model)
		report, err := Verify(t.Context(), b, true)
		if err != nil || len(report.Findings) > 0 {
			t.Fatalf("Verify: %v, %v", report.Findings, err)
		}
		if i > 0 {
			continue
		}
		// A second writer begins with the restored store, and goes on.
		mustNil(t, s.Close())
		second := manual(vfs.NewMem())
		_, err = Restore(t.Context(), b, "db", At{}, &RestoreOptions{FS: second.Store.FS})
		mustNil(t, err)
		s = openStore(t, "db", b, second)
		sameMap(t, "the second writer", contents(t, s.DB()), model)
		put(t, s, model, "a", 3) // a0002 is there again
		mustNil(t, s.DB().Flush(t.Context()))
		mustNil(t, s.DB().Compact(t.Context(), shale.Range{}))
	}
}

// TestRanges_VerifyBeyondTables makes a step that adds a range delete of the future.
func TestRanges_VerifyBeyondTables(t *testing.T) {
	s := newShipped(t, 1, NewMem())
	defer s.close()
	s.write(3)
	s.ship()
	s.publish()
	var set *spans.Set
	s.step(&object.Step{Kind: object.StepPublish, LastTableSeq: s.tables,
		Edit: &manifest.Edit{Spans: set.With([]byte("k"), nil, base.Seq(s.tables+1)), LastSeq: base.Seq(s.tables + 1)}})
	report, err := Verify(t.Context(), s.b, false)
	mustNil(t, err)
	if len(report.Findings) != 1 || !strings.Contains(report.Findings[0].Err.Error(), "adds a range delete with") {
		t.Errorf("Verify: %v", report.Findings)
	}
}
