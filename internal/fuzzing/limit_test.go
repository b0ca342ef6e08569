package fuzzing

import (
	"strings"
	"testing"
	"time"
)

// A recorder is a test that may fail.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper()                        {}
func (r *recorder) Failed() bool                   { return len(r.failures) > 0 }
func (r *recorder) Errorf(format string, _ ...any) { r.failures = append(r.failures, format) }

var sink []byte

func TestLimit_Allocations(t *testing.T) {
	l := Limit{Bytes: 8000, PerByte: 20}
	for _, c := range []struct {
		size  int
		fails bool
	}{{9000, false}, {12000, true}} {
		r := &recorder{TB: t}
		if got := l.Check(r, 100, func() { sink = make([]byte, c.size) }); got < uint64(c.size) || got > 2*uint64(c.size) {
			t.Errorf("%d bytes measured, want %d", got, c.size)
		}
		once := &recorder{TB: t}
		l.Once(once, 100, "it", func() { sink = make([]byte, c.size) })
		if r.Failed() != c.fails || once.Failed() != c.fails {
			t.Errorf("%d bytes of %d: %q, %q", c.size, l.Bytes+100*l.PerByte, r.failures, once.failures)
		}
	}
}

// What is over a limit each time fails, not what was so once.
func TestLimit_Tries(t *testing.T) {
	for _, c := range []struct {
		name string
		want string
		fn   func(try int) (uint64, time.Duration)
	}{
		{"within", "", func(int) (uint64, time.Duration) { return 10, time.Millisecond }},
		{"more once", "", func(try int) (uint64, time.Duration) { return uint64(11 - try), 0 }},
		{"more each time", "allocated", func(try int) (uint64, time.Duration) { return 11, 0 }},
		{"slow once", "", func(try int) (uint64, time.Duration) { return 0, time.Hour / time.Duration(1+try*3600) }},
		{"slow each time", "takes", func(try int) (uint64, time.Duration) { return 0, time.Hour }},
	} {
		r, try := &recorder{TB: t}, -1
		Limit{Bytes: 10}.check(r, 0, func() (uint64, time.Duration) { try++; return c.fn(try) })
		if got := strings.Join(r.failures, "; "); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
