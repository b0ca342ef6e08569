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

// A history is the file of lines typed at prompts. Each line is written when
// it is typed: so it outlives a terminal that is closed, and prompts side by
// side all add to it. A nil history keeps nothing; a prompt works without.
type history struct{ f *os.File }

// maxHistoryLine is the longest line, in bytes, that is kept: what the editor
// reads back.
const maxHistoryLine = 4000

// historyFile returns where prompts keep their history, empty if nowhere.
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

// stateFolder returns where programs keep what they remember, as the XDG base
// directory specification has it, or what the system has instead.
func stateFolder(env command.Environment) string {
	if dir := env.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir // a relative one is to be ignored
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

// openHistory gives line the history of file name, and returns the file to
// write it on.
func openHistory(name string, line *liner.State) *history {
	if name == "" {
		return nil
	}
	n := readHistory(name, line)
	if os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return nil
	}
	mode := os.O_APPEND
	if n > 2*liner.HistoryLimit {
		mode = os.O_TRUNC
	}
	f, err := outfile.Open(name, os.O_CREATE|os.O_WRONLY|mode, 0o600)
	if err != nil {
		return nil
	}
	// What is typed may be secret. A device, as /dev/null, is not ours to change.
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		_ = f.Chmod(0o600) // the prompt works all the same
	}
	if mode == os.O_TRUNC {
		_, _ = line.WriteHistory(f) // the newest lines; no command depends on it
	}
	return &history{f}
}

// readHistory returns how many lines there were.
func readHistory(name string, line *liner.State) int {
	f, err := os.Open(name)
	if err != nil {
		return 0
	}
	defer f.Close()
	n, _ := line.ReadHistory(f) // as far as it can be read
	return n
}

// append adds a line, unless the editor could not read it back.
func (h *history) append(line string) {
	if h != nil && len(line) <= maxHistoryLine && utf8.ValidString(line) {
		_, _ = fmt.Fprintln(h.f, line) // no command depends on it
	}
}

func (h *history) close() {
	if h != nil {
		_ = h.f.Close() // likewise
	}
}
