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

// complete offers what the word before pos may become: commands, options,
// keys. pos counts characters, as the editor does.
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
			choice += " " // a folder goes on
		}
		completions = append(completions, choice)
	}
	return head, completions, tail
}

// lastWord returns where the last, unfinished word of text begins.
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

// choices returns the words that begin with partial and make sense after
// before.
func choices(s *command.Session, before []command.Word, partial string) []string {
	words, directive := s.Complete(before, partial)
	switch {
	case directive&cobra.ShellCompDirectiveFilterDirs != 0:
		return filesFrom(partial, true)
	case directive&cobra.ShellCompDirectiveNoFileComp == 0 && directive&cobra.ShellCompDirectiveError == 0 && len(words) == 0 && len(before) > 0:
		return filesFrom(partial, false)
	case len(before) == 0 && partial == "": // those with a dot would crowd the others out
		words = slices.DeleteFunc(words, func(w string) bool { return w[0] == '.' })
	}
	return words
}

// filesFrom returns the files, or only the folders, whose names begin with the
// unfinished word partial. A folder's ends in a slash, and is not finished.
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
		return nil // a command will tell
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
