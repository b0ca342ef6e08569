package command

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/quoting"
)

// withoutPackage has the functions of the package bash-completion that cobra's script for
// bash calls, for shells that lack that package.
//
// Many machines have bash and no bash-completion, such as containers.
const withoutPackage = `
if ! declare -F _get_comp_words_by_ref >/dev/null; then
    _get_comp_words_by_ref() {
        cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    }
fi
`

// completionCommand prints the script that a shell runs to complete words of shale. The script
// calls shale with a hidden command of package cobra, which completeShell answers.
func completionCommand() *Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	c := newCommand("completion SHELL", needsNothing, "print a script that makes a shell complete commands, options and keys", `
SHELL is bash, zsh, fish or powershell. For bash, write source <(shale completion bash) into ~/.bashrc. For zsh,
write the script to a file _shale in a folder of $fpath. For fish, write it to
~/.config/fish/completions/shale.fish.`)
	c.values = shells
	return c.does(func(_ context.Context, s *Session, words []Word) (Status, error) {
		root := s.tree("")
		switch words[0].Text {
		case "bash":
			if err := root.GenBashCompletionV2(s.Out, true); err != nil {
				return Failed, err
			}
			_, err := s.Out.WriteString(withoutPackage)
			return Found, err
		case "zsh":
			return Found, root.GenZshCompletion(s.Out)
		case "fish":
			return Found, root.GenFishCompletion(s.Out, true)
		case "powershell":
			return Found, root.GenPowerShellCompletionWithDesc(s.Out)
		}
		return Failed, fmt.Errorf("%s is not one of %s", output.Quote(words[0].Text), strings.Join(shells, ", "))
	})
}

// completeShell answers the completion script of a shell with the possible completions of a word.
//
// It must be quick and silent: the user is typing. So it opens the store only if a key is to be
// completed, and an error means that there are no completions.
func (s *Session) completeShell(env Environment) Status {
	root := s.tree("")
	f := &flags{dir: env.Getenv("SHALE_DIR")}
	f.options(root.Flags())
	f.ofStore(root.PersistentFlags(), nil)
	// A word that is no command is a file or a folder: the store, or a part of its name.
	root.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	args := f.withoutStore(env.Args)
	s.Mode = oneShot
	s.beforeKeys = func() bool {
		s.Dir = f.dir
		return s.OpenFor("completion", Reads) == nil // if it fails, there is nothing to complete
	}
	root.SetArgs(args)
	root.SetOut(s.Out)
	root.SetErr(io.Discard)
	if root.Execute() != nil {
		return Failed
	}
	return Found
}

// withoutStore returns the arguments of a completion without the name of the store in front of the
// command, which f has then. The first argument is that of cobra, and the last one the unfinished word.
func (f *flags) withoutStore(args []string) []string {
	if len(args) < 3 {
		return args
	}
	words := args[1 : len(args)-1]
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.options(set)
	if err := set.Parse(words); err != nil || f.named || set.NArg() == 0 || !namesStore(set.Args()) {
		return args
	}
	at := len(words) - set.NArg()
	f.dir, f.named = words[at], true
	return append(args[:1+at:1+at], args[2+at:]...)
}

// Complete returns the possible completions of the unfinished word partial after words, and
// whether files and folders are possible, too.
//
// The prompt asks here, and gets what a shell would get: words and options go through the same
// command of cobra. A literal word is marked, so that cobra does not take "--keys" for an option.
func (s *Session) Complete(words []Word, partial string) ([]string, cobra.ShellCompDirective) {
	// cobra keeps each completion function for the life of the program. So only those of the named
	// command are registered.
	named := "help" // help has no options that need completion
	if len(words) > 0 {
		c, _ := s.commandOf(words)
		if c == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		named = c.Title
	}
	args := []string{cobra.ShellCompNoDescRequestCmd}
	for _, w := range words {
		if dash := len(w.Text) > 1 && w.Text[0] == '-' && w.Text[1] != '-'; w.Literal || dash {
			args = append(args, wordMark+w.Text)
		} else {
			args = append(args, w.Text)
		}
	}
	var out bytes.Buffer
	root := s.tree(named)
	root.SetArgs(append(args, partial))
	root.SetOut(&out)
	root.SetErr(io.Discard)
	if root.Execute() != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	var directive cobra.ShellCompDirective
	if _, err := fmt.Sscanf(lines[len(lines)-1], ":%d", &directive); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:len(lines)-1], directive
}

// completeOption makes cobra complete the argument of an option.
//
// The kind of an argument, as help shows it, says what can stand there: KEY, FILE, DIR, or one of a
// few words.
func (s *Session) completeOption(c *Command, f *pflag.Flag) {
	a, ok := f.Value.(*argument)
	if !ok {
		return
	}
	// It fails only if there is no such option, or if it was registered before.
	_ = c.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, partial string) ([]string, cobra.ShellCompDirective) {
		switch {
		case a.choices != nil:
			return beginningWith(partial, a.choices), cobra.ShellCompDirectiveNoFileComp
		case a.kind == "KEY":
			return s.keyChoices(partial), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, directiveOf(a.kind)
	})
}

// wordChoices returns the possible completions of the word partial of c after the words before.
//
// What a word can be follows from its name in help, so a new command is completed without further
// work.
func (s *Session) wordChoices(c *Command, before []string, partial string) ([]string, cobra.ShellCompDirective) {
	n := len(before)
	name := c.wordName(n)
	switch {
	case name == "COMMAND" || name == "SUBCOMMAND":
		return s.nameChoices(before, partial), cobra.ShellCompDirectiveNoFileComp
	case c.keys < 0 || n < c.keys || name == "KEY":
		return s.keyChoices(partial), cobra.ShellCompDirectiveNoFileComp
	case n == 0 && c.values != nil:
		return beginningWith(partial, c.values), cobra.ShellCompDirectiveNoFileComp
	case strings.Contains(name, "|"):
		return beginningWith(partial, strings.Split(name, "|")), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, directiveOf(name)
}

// nameChoices returns the words that continue a name of a command after the words before.
func (s *Session) nameChoices(before []string, partial string) (names []string) {
	lead := strings.Join(append(before, ""), " ")
	for _, name := range s.commands().names {
		rest, ok := strings.CutPrefix(name, lead)
		if ok && strings.HasPrefix(rest, partial) && !strings.Contains(rest, " ") {
			names = append(names, rest)
		}
	}
	return names
}

// directiveOf returns whether files or folders are possible for a word that help calls kind.
func directiveOf(kind string) cobra.ShellCompDirective {
	switch kind {
	case "FILE", "SCRIPT":
		return cobra.ShellCompDirectiveDefault
	case "DIR", "TO", "FROM":
		return cobra.ShellCompDirectiveFilterDirs
	}
	return cobra.ShellCompDirectiveNoFileComp
}

// wordName returns the name in help of word n of c, such as FILE.
//
// A name that ends in ... stands for all words from there up.
func (c *Command) wordName(n int) string {
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

// beginningWith returns the words that begin with partial.
func beginningWith(partial string, all []string) (words []string) {
	for _, w := range all {
		if strings.HasPrefix(w, partial) {
			words = append(words, w)
		}
	}
	return words
}

// MaxCompletions is the largest number of keys that a completion offers.
const MaxCompletions = 50

// keyChoices returns keys that begin with the unfinished word partial. If there are many, it
// returns the first ones and the last one. The editor types the longest common prefix of the
// choices. With the last key among them, this is the common prefix of all keys.
//
// In a large store a prefix may have millions of keys. Two short scans are enough for a person to
// see how the keys go on.
func (s *Session) keyChoices(partial string) (words []string) {
	r, f, ok := unfinished(partial)
	if !ok || s.DB == nil && (s.beforeKeys == nil || !s.beforeKeys()) {
		return nil
	}
	reader := shale.Reader(s.DB)
	if s.tx != nil {
		reader = s.tx.Untracked() // a Tab must not make the commit fail
	}
	r.KeysOnly, r.Limit = true, MaxCompletions
	for e, err := range reader.Scan(r) {
		if err != nil {
			return nil // the command itself will report it
		}
		words = append(words, string(output.AppendWord(nil, e.Key, f)))
	}
	if s.beforeKeys != nil { // a shell would interpret the quotes
		return slices.DeleteFunc(words, func(w string) bool { return w[0] == '"' })
	}
	if len(words) < MaxCompletions {
		return words
	}
	r = r.Reversed()
	r.Limit = 1
	for e, err := range reader.Scan(r) {
		if err != nil {
			return nil // the same
		}
		words[len(words)-1] = string(output.AppendWord(nil, e.Key, f))
	}
	return words
}

// unfinished returns the range of keys to which the unfinished word can be completed, and
// the format in which it is written.
//
// For example, the unfinished word 0x6 stands for the keys from 0x60 up to below 0x70.
func unfinished(partial string) (r shale.Range, f output.Format, ok bool) {
	if strings.HasPrefix(partial, `"`) {
		text, _, err := quoting.Unquote(partial + `"`)
		return shale.Prefix(text), output.AsWords, err == nil
	}
	if !quoting.IsHex(partial) {
		return shale.Prefix(partial), output.AsWords, true
	}
	digits := partial[2:]
	half := len(digits) % 2 // the last byte may have only its first digit
	least, err := hex.DecodeString(digits + "0"[:half])
	most, _ := hex.DecodeString(digits + "f"[:half]) // fails as the other does
	return shale.Range{Lower: least, Upper: shale.Prefix(most).Upper}, output.AsHex, err == nil
}
