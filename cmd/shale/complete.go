package main

import (
	"slices"
	"strings"

	"github.com/shaledb/shale"
)

// maxCompletions bounds how many keys a completion offers.
const maxCompletions = 50

// complete offers what the word at pos may become: commands, options, keys.
// pos counts bytes.
func (s *session) complete(line string, pos int) (head string, completions []string, tail string) {
	head, tail = line[:pos], line[pos:]
	start := lastWord(head)
	head, partial := head[:start], head[start:]
	before, err := parseLine(head)
	if err != nil {
		return head + partial, nil, tail
	}
	for _, choice := range s.choices(before, partial) {
		completions = append(completions, choice+" ")
	}
	return head, completions, tail
}

// lastWord returns where the last, unfinished word of text begins.
func lastWord(text string) int {
	i := skipSpace(text, 0)
	for start := i; ; start = i {
		w := text[start:]
		if w == "" {
			return start
		}
		n := wordEnd(w)
		if w[0] == '"' {
			_, end, err := unquote(w)
			if err != nil {
				return start
			}
			n = end
		}
		if start+n == len(text) {
			return start
		}
		i = skipSpace(text, start+n)
	}
}

// choices returns the words that begin with partial and make sense after
// before.
func (s *session) choices(before []word, partial string) []string {
	if len(before) == 0 {
		return commandNames(partial)
	}
	c := lookup(before[0].text)
	switch {
	case c == nil:
		return nil
	case strings.HasPrefix(partial, "--"):
		return optionNames(c, partial)
	case c.name == "help":
		return commandNames(partial)
	case c.keys < 0 || len(before) <= c.keys:
		return s.keysFrom(partial)
	}
	return nil
}

func commandNames(partial string) (names []string) {
	for _, g := range table() {
		for _, c := range g.commands {
			if strings.HasPrefix(c.name, partial) {
				names = append(names, c.name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func optionNames(c *command, partial string) (names []string) {
	for _, o := range c.options {
		if name := "--" + o.name; strings.HasPrefix(name, partial) {
			names = append(names, name)
		}
	}
	return names
}

// keysFrom returns the first keys that begin with the unfinished word partial.
func (s *session) keysFrom(partial string) (words []string) {
	if s.db == nil {
		return nil
	}
	prefix := partial
	if strings.HasPrefix(partial, `"`) {
		var err error
		if prefix, _, err = unquote(partial + `"`); err != nil {
			return nil
		}
	} else if isHex(partial) {
		return nil
	}
	r := shale.Prefix(prefix)
	r.KeysOnly, r.Limit = true, maxCompletions
	for e, err := range s.db.Scan(r) {
		if err != nil {
			return nil // a command will tell
		}
		words = append(words, quote(e.Key))
	}
	return words
}
