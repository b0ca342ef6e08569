package resp

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/cluster/cmd/internal/resp/resptest"
)

// Each reply in both protocols. What would end a line does not do so within one.
func TestReplies(t *testing.T) {
	soon := time.Now().Add(150*time.Minute + time.Minute) // nearer to 3 hours than to 2
	for _, test := range []struct {
		name         string
		reply        func(r *Replies)
		resp2, resp3 string // the same if empty
	}{
		{"OK", func(r *Replies) { r.OK() }, "+OK|", ""},
		{"Simple", func(r *Replies) { r.Simple("a\r\nb") }, "+a  b|", ""},
		{"Error", func(r *Replies) { r.Error("ERR a\nb\rc") }, "-ERR a b c|", ""},
		{"SyntaxError", func(r *Replies) { r.SyntaxError() }, "-ERR syntax error|", ""},
		{"WrongArity", func(r *Replies) { r.WrongArity("GET") }, "-ERR wrong number of arguments for 'get' command|", ""},
		{"Integer", func(r *Replies) { r.Integer(-1 << 63) }, ":-9223372036854775808|", ""},
		{"TimeLeft", func(r *Replies) {
			r.TimeLeft(time.Time{}, time.Second)
			r.TimeLeft(time.Now(), time.Millisecond)
			r.TimeLeft(soon, time.Hour)
		}, ":-1|:0|:3|", ""},
		{"Truth", func(r *Replies) { r.Truth(true); r.Truth(false) }, ":1|:0|", ""},
		{"Bulk", func(r *Replies) { r.Bulk([]byte("a\r\nb")); r.Bulk(nil) }, "$4|a|b|$0||", ""},
		{"BulkString", func(r *Replies) { r.BulkString("twelve bytes") }, "$12|twelve bytes|", ""},
		{"Array", func(r *Replies) { r.Array(1); r.Integer(2) }, "*1|:2|", ""},
		{"Map", func(r *Replies) { r.Map(1); r.Simple("a"); r.Integer(2) }, "*2|+a|:2|", "%1|+a|:2|"},
		{"Null", func(r *Replies) { r.Null() }, "$-1|", "_|"},
		{"NullArray", func(r *Replies) { r.NullArray() }, "*-1|", "_|"},
	} {
		for _, isRESP3 := range []bool{false, true} {
			want := test.resp2
			if isRESP3 && test.resp3 != "" {
				want = test.resp3
			}
			r := Replies{RESP3: isRESP3}
			test.reply(&r)
			if got := strings.ReplaceAll(string(r.Out), "\r\n", "|"); got != want {
				t.Errorf("%s, RESP3 %v: %q, want %q", test.name, isRESP3, got, want)
			}
			for rest := r.Out; len(rest) > 0; {
				n, err := resptest.Reply(rest)
				if err != nil {
					t.Fatalf("%s: %v: %q", test.name, err, rest)
				}
				rest = rest[n:]
			}
		}
	}
}

// Replies that are errors are counted, and no others.
func TestReplies_Errors(t *testing.T) {
	var errors atomic.Int64
	r := Replies{Errors: &errors}
	r.SyntaxError()
	r.OK()
	r.WrongArity("GET")
	r.Error("ERR")
	if n := errors.Load(); n != 3 {
		t.Errorf("%d errors were counted, want 3", n)
	}
}
