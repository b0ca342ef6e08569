package program

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shaledb/shale/cluster"
)

// Clients learn from the first word of an error whether the write may have happened, and a write is repeated only if it
// certainly has not.
func TestServe_ErrorsInWordsOfRedis(t *testing.T) {
	t.Parallel()
	known, nobody := &cluster.NotLeaderError{ID: "b", Address: "10.0.0.2:7380"}, &cluster.NotLeaderError{}
	for _, test := range []struct {
		err        error
		forward    bool
		word       string
		again      bool
		mustNotSay string
	}{
		{fmt.Errorf("%w: %w", cluster.ErrUnknown, context.DeadlineExceeded), true, "UNKNOWN ", false, "nothing was written"},
		{fmt.Errorf("%w: %w", cluster.ErrUnknown, known), true, "UNKNOWN ", false, "nothing was written"},
		{fmt.Errorf("%w: %w", cluster.ErrUnknown, cluster.ErrFailed), true, "UNKNOWN ", false, "nothing was written"},
		{nobody, true, "CLUSTERDOWN ", true, ""},
		{nobody, false, "CLUSTERDOWN ", true, ""},
		{fmt.Errorf("%w: %w", known, errors.New("dial tcp: refused")), true, "CLUSTERDOWN member b ", true, ""},
		{known, false, "MOVED 0 10.0.0.2:6380", false, ""},
		{&cluster.NotLeaderError{ID: "c", Address: "10.0.0.3:7380"}, false, "READONLY this member does not lead: write to member c", false, ""},
		{fmt.Errorf("cluster: read: %w: %w", context.DeadlineExceeded, known), true, "CLUSTERDOWN ", true, ""},
		{context.DeadlineExceeded, true, "CLUSTERDOWN ", false, ""},
		{fmt.Errorf("%w: EIO", cluster.ErrFailed), true, "ERR this member has stopped", false, ""},
		{cluster.ErrClosed, true, "ERR this member has stopped", false, ""},
		{fmt.Errorf("%w: ffff", cluster.ErrReservedKey), true, "ERR keys that begin with 32 bytes 0xff", false, ""},
		{errors.New("what else"), true, "ERR the store: what else", false, ""},
	} {
		m := &member{config: config{Options: cluster.Options{ID: "a", Forward: test.forward}}}
		if !test.forward {
			m.config.clients = map[string]string{"b": "10.0.0.2:6380"}
		}
		text := m.explain(test.err)
		if !strings.HasPrefix(text, test.word) || test.mustNotSay != "" && strings.Contains(text, test.mustNotSay) {
			t.Errorf("%v is explained as %q", test.err, text)
		}
		if got := m.again(test.err); got != test.again {
			t.Errorf("%v is tried again: %v", test.err, got)
		}
	}
}
