package shell

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/quoting"
)

// maxCompletions bounds how many keys a completion offers.
const maxCompletions = 50

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
	if len(before) == 0 {
		return commandNames(s, "", partial)
	}
	c, rest := s.CommandOf(before)
	if c == nil {
		return nil
	}
	n, arg := position(c, rest)
	switch {
	case arg != nil:
		return argumentsOf(s, arg.Values, arg.Arg, partial)
	case c.Nested && n >= 1 && c.Most < 0:
		return choices(s, before[2:], partial)
	case strings.HasPrefix(partial, "--"):
		return optionNames(c, partial)
	case c.Words == "[COMMAND]" && n == 0:
		return commandNames(s, "", partial)
	case c.Words == "[COMMAND]":
		return commandNames(s, before[1].Text+" ", partial)
	case len(before) == 1 && c.Keys == 0 && commandNames(s, c.Name+" ", partial) != nil:
		return commandNames(s, c.Name+" ", partial)
	case c.Keys < 0 || n < c.Keys:
		return keysFrom(s, partial)
	case n == 0 && c.Values != nil:
		return beginningWith(partial, c.Values)
	}
	return argumentsOf(s, nil, wordName(c, n), partial)
}

// argumentsOf returns what a word may be that help calls name: one of values,
// of a name "on|off" itself, a key, a file.
func argumentsOf(s *command.Session, values []string, name, partial string) []string {
	switch {
	case values != nil:
		return beginningWith(partial, values)
	case strings.Contains(name, "|"):
		return beginningWith(partial, strings.Split(name, "|"))
	case name == "KEY" || name == "PREFIX":
		return keysFrom(s, partial)
	case name == "FILE" || name == "DIR" || name == "INTO":
		return filesFrom(partial, name != "FILE")
	}
	return nil
}

// wordName returns what help calls word n of c, as FILE.
func wordName(c *command.Command, n int) string {
	names := strings.Fields(c.Words)
	if len(names) == 0 {
		return ""
	}
	name := names[min(n, len(names)-1)]
	if n >= len(names) && !strings.HasSuffix(name, "...") {
		return ""
	}
	return strings.Trim(strings.TrimSuffix(name, "..."), "[]")
}

func beginningWith(partial string, all []string) (words []string) {
	for _, w := range all {
		if strings.HasPrefix(w, partial) {
			words = append(words, w)
		}
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
		if words = append(words, output.Quote(name)); len(words) == maxCompletions {
			break
		}
	}
	return words
}

// position tells how many words of c, options aside, stand in words; and what
// option the next one is the argument of, if it is.
func position(c *command.Command, words []command.Word) (n int, arg *command.Option) {
	for _, w := range words {
		switch name, isOption := strings.CutPrefix(w.Text, "--"); {
		case arg != nil:
			arg = nil
		case isOption && !w.Literal && (!c.Nested || n == 0):
			if o := command.OptionIn(command.Join(c.Options, command.SettingOptions), name); o != nil && o.Arg != "" {
				arg = o
			}
		default:
			n++
		}
	}
	return n, arg
}

// commandNames returns the words with which names of commands go on behind
// those before, which may be none.
func commandNames(s *command.Session, before, partial string) (names []string) {
	for _, g := range s.Table() {
		for _, c := range g.Commands {
			name, ok := strings.CutPrefix(c.Name, before)
			if partial == "" && strings.HasPrefix(name, ".") {
				continue // they would crowd the others out
			}
			if ok && strings.HasPrefix(name, partial) && !strings.Contains(name, " ") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func optionNames(c *command.Command, partial string) (names []string) {
	for _, o := range command.Join(c.Options, command.SettingOptions) {
		if name := "--" + o.Name; strings.HasPrefix(name, partial) {
			names = append(names, name)
		}
	}
	return names
}

// keysFrom returns keys that begin with the unfinished word partial: all, or if
// they are many the first ones and the last. With the last, what all of these
// have in common, which the editor writes down, is what all keys have in
// common.
func keysFrom(s *command.Session, partial string) (words []string) {
	r, f, ok := unfinished(partial)
	if !ok || s.DB == nil {
		return nil
	}
	r.KeysOnly, r.Limit = true, maxCompletions
	for e, err := range s.DB.Scan(r) {
		if err != nil {
			return nil // a command will tell
		}
		words = append(words, string(output.AppendWord(nil, e.Key, f)))
	}
	if len(words) < maxCompletions {
		return words
	}
	r = r.Reversed()
	r.Limit = 1
	for e, err := range s.DB.Scan(r) {
		if err != nil {
			return nil // likewise
		}
		words[len(words)-1] = string(output.AppendWord(nil, e.Key, f))
	}
	return words
}

// unfinished returns the keys that the beginning of a word may become, and the
// format in which it is written.
func unfinished(partial string) (r shale.Range, f output.Format, ok bool) {
	if strings.HasPrefix(partial, `"`) {
		text, _, err := quoting.Unquote(partial + `"`)
		return shale.Prefix(text), output.AsWords, err == nil
	}
	if !quoting.IsHex(partial) {
		return shale.Prefix(partial), output.AsWords, true
	}
	digits := partial[2:]
	half := len(digits)%2 != 0 // of the last byte only its first digit is there
	if half {
		digits += "0"
	}
	b, err := hex.DecodeString(digits)
	if err != nil || !half {
		return shale.Prefix(b), output.AsHex, err == nil
	}
	r = shale.Range{Lower: b, Upper: slices.Clone(b)}
	if last := len(b) - 1; b[last] < 0xf0 {
		r.Upper[last] += 0x10
	} else {
		r.Upper = shale.Prefix(b[:last]).Upper
	}
	return r, output.AsHex, true
}
