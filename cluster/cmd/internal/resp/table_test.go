package resp

import (
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

func testTable() *Table[int] {
	return NewTable([]Command[int]{
		{Name: "SET", Arity: -3, Flags: "write", First: 1, Last: 1, Step: 1, Do: 1},
		{Name: "MSET", Arity: -3, Flags: "write", First: 1, Last: -1, Step: 2, Do: 2},
		{Name: "GET", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: 3},
		{Name: "DEL", Arity: -2, Flags: "write", First: 1, Last: -1, Step: 1, Do: 4},
		{Name: "INFO", Arity: -1, Do: 5},
	})
}

// A call is taken if it has as many arguments as the table says, and its keys are found.
func TestTable_Calls(t *testing.T) {
	table := testTable()
	for _, test := range []struct {
		line  string
		do    int  // 0: there is no such command
		takes bool // the arguments
		keys  string
	}{
		{"what a", 0, false, ""},
		{"a_name_that_is_longer_than_any", 0, false, ""},
		{"get", 3, false, ""},
		{"GeT a", 3, true, "a"},
		{"GET a b", 3, false, ""},
		{"SET a", 1, false, ""},
		{"SET a 1", 1, true, "a"},
		{"SET a 1 NX", 1, true, "a"},
		{"MSET a 1", 2, true, "a"},
		{"MSET a 1 b", 2, false, ""},
		{"MSET a 1 b 2", 2, true, "a b"},
		{"DEL a b c", 4, true, "a b c"},
		{"INFO all", 5, true, ""},
		{"INFO", 5, true, ""},
	} {
		args := bytesOf(test.line)
		c := table.LookUp(args[0])
		if test.do == 0 {
			if c != nil {
				t.Errorf("%s is %s", test.line, c.Name)
			}
			continue
		}
		if c == nil || c.Do != test.do || c.Takes(args) != test.takes {
			t.Errorf("%s: %+v", test.line, c)
			continue
		}
		if !test.takes {
			continue
		}
		var keys []string
		for key := range c.Keys(args) {
			keys = append(keys, string(key))
		}
		if got := strings.Join(keys, " "); got != test.keys {
			t.Errorf("%s has the keys %q, want %q", test.line, got, test.keys)
		}
	}
}

// A server looks each command up, so it must not allocate.
func TestTable_AllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	table := testTable()
	args := bytesOf("del a b c")
	long := 0
	allocs := testing.AllocsPerRun(100, func() {
		c := table.LookUp(args[0])
		if !c.Takes(args) {
			t.Error("not taken")
		}
		for key := range c.Keys(args) {
			if len(key) > 10 {
				long++
			}
		}
	})
	if allocs > 0 || long > 0 {
		t.Errorf("a call allocates %v times", allocs)
	}
}

// What clients learn of the commands, which are in the order of their names.
func TestTable_Command(t *testing.T) {
	table, s := testTable(), newSession()
	do := func(args [][]byte) { table.Command(s, args) }
	for _, test := range []struct{ line, reply string }{
		{"COUNT", ":5|"},
		{"INFO get nothing", "*2|*6|$3|get|:2|*2|+readonly|+fast|:1|:1|:1|*-1|"},
		{"DOCS", "*0|"},
		{"WHAT", `-ERR unknown subcommand '"WHAT"'|`},
	} {
		if got := ask(s, do, test.line); got != test.reply {
			t.Errorf("COMMAND %s: %q, want %q", test.line, got, test.reply)
		}
	}
	all := ask(s, do, "")
	if !strings.HasPrefix(all, "*5|*6|$3|del|:-2|*1|+write|:1|:-1|:1|*6|$3|get|") {
		t.Errorf("COMMAND: %q", all)
	}
	for i, c := range table.All() {
		if c.Index != i || i > 0 && table.All()[i-1].Name > c.Name {
			t.Errorf("%s has number %d, and is at %d", c.Name, c.Index, i)
		}
	}
	s.RESP3 = true
	if got := ask(s, do, "INFO nothing") + ask(s, do, "DOCS"); got != "*1|_|%0|" {
		t.Errorf("COMMAND in RESP3: %q", got)
	}
}
