package main

import (
	"bytes"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/internal/testenv"
)

// If standard input was closed, a command that reads it says so. The null device is an empty
// input.
func TestClosedInput(t *testing.T) {
	testenv.SkipRace(t)
	if runtime.GOOS == "windows" {
		t.Skip("no shell")
	}
	dir := filepath.Join(t.TempDir(), "db")
	for _, args := range [][]string{{"import", "-"}, {"batch", "-"}, {"put", "k", "-"}, nil} {
		for shell, want := range map[string]command.Status{`exec "$0" <&-`: command.Failed, `exec "$0" < /dev/null`: command.Found, `: | exec "$0"`: command.Found} {
			cmd := child(shell, append([]string{"-C", dir}, args...)...)
			var notes bytes.Buffer
			cmd.Stderr = &notes
			_ = cmd.Run() // the status is checked below
			if st := cmd.ProcessState.ExitCode(); st != int(want) || (want == command.Failed) != strings.Contains(notes.String(), "standard input is closed") {
				t.Errorf("%v of %s: status %d, %q; want %d", args, shell, st, &notes, want)
			}
		}
	}
}
