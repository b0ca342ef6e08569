package remote

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// TestVerify_CutOff: a deep Verify does not take answers that end too early for damage of tables.
func TestVerify_CutOff(t *testing.T) {
	b := remotetest.NewFake(NewMem())
	s := openStore(t, "db", b, manual(vfs.NewMem()))
	put(t, s, map[string]string{}, "k", 100)
	mustNil(t, s.DB().Flush(t.Context()))
	mustNil(t, s.Publish(t.Context()))
	mustNil(t, s.Close())
	lost := errors.New("lost")
	b.HookReads(func(name string) error {
		if remotetest.FolderOf(name) == object.TableFolder {
			return fmt.Errorf("the answer ends early: %w: %w", lost, io.ErrUnexpectedEOF)
		}
		return nil
	})
	report, err := Verify(t.Context(), buckets.RetryingFor(b, time.Millisecond), true)
	if !errors.Is(err, lost) || len(report.Findings) > 0 {
		t.Errorf("%v, %v", report.Findings, err)
	}
}
