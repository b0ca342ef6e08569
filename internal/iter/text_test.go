package iter

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/shaledb/shale/internal/base"
)

// TestText runs the sessions in testdata; -rewrite updates the answers.
//
//	merge    each line of the input is a child, newest first
//	concat   each line is a table
//	iter     each line is a movement: first, last, next, prev, ge KEY SEQ,
//	         lt KEY, close; fail N lets the N-th operation of child 0 or
//	         of the next table to be opened fail
//
// An answer is the entry or a dot, and the error if there is one.
func TestText(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var it base.Iterator
		var fail func(n int)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "merge":
				children, fs := fakes(t, parseLines(t, d.Input))
				it, fail = NewMerging(children...), func(n int) { fs[0].failAt = fs[0].ops + n }
			case "concat":
				run := &fakeRun{t: t, tables: parseLines(t, d.Input)}
				for _, kvs := range run.tables {
					run.bounds = append(run.bounds, [2][]byte{kvs[0].UserKey, kvs[len(kvs)-1].UserKey})
				}
				it = NewConcat(len(run.tables), run)
				fail = func(n int) { run.prepare = func(f *fake) { f.failAt = n } }
			case "iter":
				var out strings.Builder
				for _, line := range strings.Split(d.Input, "\n") {
					fmt.Fprintf(&out, "%s: %s\n", line, session(t, it, fail, strings.Fields(line)))
				}
				return out.String()
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return ""
		})
	})
}

func parseLines(t *testing.T, text string) (hands [][]base.KV) {
	for _, line := range strings.Split(text, "\n") {
		hands = append(hands, parse(t, line))
	}
	return hands
}

// session executes the lines of the command iter.
func session(t *testing.T, it base.Iterator, fail func(n int), args []string) string {
	number := func(i int) int {
		n, err := strconv.Atoi(args[i])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var kv *base.KV
	switch args[0] {
	case "first":
		kv = it.First()
	case "last":
		kv = it.Last()
	case "next":
		kv = it.Next()
	case "prev":
		kv = it.Prev()
	case "ge":
		kv = it.SeekGE([]byte(args[1]), base.Seq(number(2)))
	case "lt":
		kv = it.SeekLT([]byte(args[1]))
	case "fail":
		fail(number(1))
		return "ok"
	case "close":
		return fmt.Sprint(it.Close())
	default:
		t.Fatalf("unknown movement %s", args[0])
	}
	if err := it.Err(); err != nil {
		return describe(kv) + " " + err.Error()
	}
	return describe(kv)
}
