package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
	"github.com/shaledb/shale/cmd/shale/internal/command"
)

// call runs the program as main would.
func call(in string, args ...string) (out, notes string, st command.Status) {
	var o, e bytes.Buffer
	st = command.Run(command.Environment{
		Args: args, In: strings.NewReader(in), Out: &o, Err: &e,
		Getenv: func(string) string { return "" },
	})
	return o.String(), e.String(), st
}

// The files have sessions as text. `run` runs one command, with one word on each line. `script` runs
// a script on standard input. `input` sets what commands read from now on, `file` makes a file, and
// `flip` changes a byte of one. The result is the output, then the messages with ! before each line,
// and then the status unless it is 0.
func TestSessions(t *testing.T) {
	datadriven.Walk(t, "testdata/sessions", func(t *testing.T, path string) {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir(t.TempDir())
		input := "from standard input"
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			flags := []string{"-C", "db"}
			if d.HasArg("-C") {
				flags = nil
			}
			for _, arg := range d.CmdArgs {
				flags = append(flags, arg.String())
			}
			var out, notes string
			var st command.Status
			switch d.Cmd {
			case "input":
				input = d.Input + "\n"
				return ""
			case "run":
				if d.Input != "" {
					flags = append(flags, strings.Split(d.Input, "\n")...)
				}
				out, notes, st = call(input, flags...)
			case "script":
				out, notes, st = call(d.Input+"\n", flags...)
			case "flip":
				at, err := strconv.ParseInt(d.CmdArgs[1].String(), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				cmdtest.Flip(t, d.CmdArgs[0].String(), at)
				return ""
			case "file":
				if err := os.WriteFile(d.CmdArgs[0].String(), []byte(d.Input+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				return ""
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return transcript(out, notes, st)
		})
	})
}

func transcript(out, notes string, st command.Status) string {
	var s strings.Builder
	for line := range strings.Lines(out) {
		s.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	for line := range strings.Lines(notes) {
		s.WriteString("! " + line)
	}
	if st != command.Found {
		fmt.Fprintf(&s, "status %d\n", st)
	}
	return cmdtest.Masked(s.String())
}
