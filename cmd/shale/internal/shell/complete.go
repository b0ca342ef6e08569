package shell

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/quoting"
)

// complete returns completions of the word before pos: commands, options, keys and files. pos
// counts characters, as the editor does.
//
// The editor shows head, one of the completions and tail. A line that can't be parsed, such as one
// with an open quote before the word, gets no completions.
func complete(s *command.Session, line string, pos int) (head string, completions []string, tail string) {
	runes := []rune(line)
	head, tail = string(runes[:pos]), string(runes[pos:])
	start := lastWord(head)
	head, partial := head[:start], head[start:]
	before, err := command.ParseLine(head)
	if err != nil {
		return head + partial, nil, tail
	}
	for _, choice := range choices(s, before, partial) {
		if !strings.HasSuffix(choice, "/") && !strings.HasSuffix(choice, `/"`) {
			choice += " " // a folder is not complete yet
		}
		completions = append(completions, choice)
	}
	return head, completions, tail
}

// lastWord returns the index in text at which the last, unfinished word begins.
//
// It goes over the words from the left, because a space in quotes ends no word.
func lastWord(text string) int {
	i := command.SkipSpace(text, 0)
	for start := i; ; start = i {
		w := text[start:]
		if w == "" {
			return start
		}
		n := command.WordEnd(w)
		if w[0] == '"' {
			_, end, err := quoting.Unquote(w)
			if err != nil {
				return start
			}
			n = end
		}
		if start+n == len(text) {
			return start
		}
		i = command.SkipSpace(text, start+n)
	}
}

// choices returns the possible words after the words before that begin with partial.
//
// The session answers as it answers a shell: words, and a directive that says whether files fit
// too.
func choices(s *command.Session, before []command.Word, partial string) []string {
	words, directive := s.Complete(before, partial)
	switch {
	case directive&cobra.ShellCompDirectiveFilterDirs != 0:
		return filesFrom(partial, true)
	case directive&cobra.ShellCompDirectiveNoFileComp == 0 && directive&cobra.ShellCompDirectiveError == 0 && len(words) == 0 && len(before) > 0:
		return filesFrom(partial, false)
	case len(before) == 0 && partial == "": // commands with a dot would hide the others
		words = slices.DeleteFunc(words, func(w string) bool { return w[0] == '.' })
	}
	return words
}

// filesFrom returns the files, or only the folders, whose names begin with the unfinished word
// partial. The name of a folder gets a slash at its end.
//
// Hidden files are offered only if the word begins with a dot. Names are quoted where a line needs
// it, and not as a shell would.
//
// A folder with very many files offers some of them only.
func filesFrom(partial string, foldersOnly bool) (words []string) {
	text := partial
	if strings.HasPrefix(partial, `"`) {
		var err error
		if text, _, err = quoting.Unquote(partial + `"`); err != nil {
			return nil
		}
	}
	dir, base := filepath.Split(text)
	from := dir
	if from == "" {
		from = "."
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil // the command will report it
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, base) || base == "" && name[0] == '.' || foldersOnly && !e.IsDir() {
			continue
		}
		name = dir + name
		if e.IsDir() {
			name += "/"
		}
		if words = append(words, output.Quote(name)); len(words) == command.MaxCompletions {
			break
		}
	}
	return words
}
