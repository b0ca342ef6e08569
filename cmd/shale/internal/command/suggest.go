package command

import (
	"slices"
	"strings"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// synonyms maps names from other programs to names of commands.
var synonyms = map[string]string{
	"set": "put", "delete": "del", "rm": "del", "remove": "del", "exists": "has", "ls": "scan", "list": "scan",
	"q": "quit", "bye": "quit", "keys": "scan --keys", "?": "help", "info": "metrics", "first": "scan --limit 1", "last": "scan --reverse --limit 1", "may": "has --filters", "version": "shale --version", "backup": "checkpoint", "stats": "metrics",
	"ship": "shale-remote ship", "restore": "shale-remote restore", "promote": "shale-remote promote", "pin": "shale-remote pin", "pins": "shale-remote pins",
	"unpin": "shale-remote unpin", "collect": "shale-remote collect", "salvage": "shale-remote salvage", "verify": "check, or shale-remote verify",
}

// unknownCommand returns the message that w is not a command, and which command may be meant.
func (s *Session) unknownCommand(w Word) string {
	names := s.commands().names
	text := "unknown command " + output.Quote(w.Text)
	if meant := synonyms[strings.TrimPrefix(w.Text, ".")]; meant != "" {
		return text + "; did you mean " + meant + "? help lists the commands"
	}
	if meant := didYouMean(w.Text, names); meant != "" {
		return text + meant + " help lists the commands"
	}
	return text + "; help lists them"
}

// goesOn returns a question whether w, which follows the name of c, is meant to be the second
// word of another command's name, or "".
func (s *Session) goesOn(c *Command, w Word) string {
	var names []string
	for _, name := range s.commands().names {
		if second, ok := strings.CutPrefix(name, c.Title+" "); ok {
			names = append(names, second)
		}
	}
	if meant, ok := strings.CutPrefix(didYouMean(w.Text, names), "; did you mean "); ok && !w.Literal {
		return "; did you mean " + c.Title + " " + meant
	}
	return ""
}

// didYouMean returns the question whether one of names is meant. It asks for the names that begin
// with text, or else for the most similar one. It returns "" if there is none.
func didYouMean(text string, names []string) string {
	text = strings.ToLower(text)
	meant := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return len(strings.TrimLeft(text, "-.")) < 2 || !strings.HasPrefix(name, text) || strings.Contains(name[len(text):], " ")
	})
	if len(meant) == 0 {
		meant = nearest(text, names)
	}
	if len(meant) == 0 {
		return ""
	}
	last := len(meant) - 1
	if last > 0 {
		meant = []string{strings.Join(meant[:last], ", "), meant[last]}
	}
	return "; did you mean " + strings.Join(meant, " or ") + "?"
}

// nearest returns the most similar name, or nothing if none is similar enough for text to be a
// typing mistake.
func nearest(text string, names []string) (best []string) {
	least := 3
	if len(text) <= 3 {
		least = 2
	}
	for _, name := range names {
		if d := editDistance(text, name, least-1); d < least && d < len(name) {
			best, least = []string{name}, d
		}
	}
	return best
}

// editDistance returns the number of edits that turn a into b. An edit inserts, deletes or
// changes a letter, or swaps two neighbours. If the number is above most, the result is only
// some number above most.
func editDistance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	// Row i has the distances of a[:i] from each b[:j]. Only the last two rows are kept.
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
