package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unicode/utf8"

	"github.com/peterh/liner"

	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/internal/outfile"
)

// A history is the file of lines typed at prompts. Each line is written at once. So it is there
// even if the terminal is closed, and several prompts can add to the same file. A nil history
// keeps nothing; a prompt works without one.
//
// The file has a line for each line. It grows to twice what the editor keeps, and is then cut.
type history struct{ f *os.File }

// maxHistoryLine is the length of the longest line that is kept, in bytes. The editor can't read
// longer lines.
const maxHistoryLine = 4000

// historyFile returns the file for the history of prompts, or "" for none.
func historyFile(env command.Environment) string {
	if name := env.Getenv("SHALE_HISTORY"); name != "" {
		return name
	}
	dir := stateFolder(env)
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "shale", "history")
}

// stateFolder returns the folder for state of programs according to the XDG base directory
// specification, or the corresponding folder of the system.
func stateFolder(env command.Environment) string {
	if dir := env.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir // the specification says to ignore relative paths
	}
	switch runtime.GOOS {
	case "windows", "darwin", "ios", "plan9":
		dir, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		return dir
	}
	if home := env.Getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "state")
	}
	return ""
}

// openHistory reads the history from the named file into line. It returns a history that adds
// lines to this file.
//
// Errors are not reported: a home folder that can't be written to is no reason against a prompt.
func openHistory(name string, line *liner.State) *history {
	if name == "" {
		return nil
	}
	n := readHistory(name, line)
	if os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return nil
	}
	mode := os.O_APPEND
	// Several prompts may append meanwhile. What they add while it is cut is lost, which a history
	// bears.
	if n > 2*liner.HistoryLimit {
		mode = os.O_TRUNC
	}
	f, err := outfile.Open(name, os.O_CREATE|os.O_WRONLY|mode, 0o600)
	if err != nil {
		return nil
	}
	// Lines may be secret, so only the user may read the file. A device such as /dev/null must
	// not be changed.
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		_ = f.Chmod(0o600) // the prompt works without it
	}
	if mode == os.O_TRUNC {
		_, _ = line.WriteHistory(f) // it writes only the newest lines; no command depends on it
	}
	return &history{f}
}

// readHistory reads the history of f into line, and returns the number of lines.
func readHistory(name string, line *liner.State) int {
	f, err := os.Open(name)
	if err != nil {
		return 0
	}
	defer f.Close()
	n, _ := line.ReadHistory(f) // what can't be read is ignored
	return n
}

// append adds a line, unless it is too long for the editor to read it again.
func (h *history) append(line string) {
	if h != nil && len(line) <= maxHistoryLine && utf8.ValidString(line) {
		_, _ = fmt.Fprintln(h.f, line) // no command depends on it
	}
}

// close closes the file, if there is one.
func (h *history) close() {
	if h != nil {
		_ = h.f.Close() // no command depends on it
	}
}
