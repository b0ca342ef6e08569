package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// An argument is the argument of an option. It implements pflag.Value.
//
// One type serves all options with an argument. What differs is set, which parses it and stores the
// result.
type argument struct {
	name, kind string // the name of the option, and what help calls the argument
	set        func(w Word) error
	choices    []string // the possible values, for completion; nil: they follow from kind
	of         *Command // the command with the option; nil: an option of the program
}

// String and Type implement pflag.Value. There is no default text: help has it in words.
func (a *argument) String() string { return "" }
func (a *argument) Type() string   { return a.kind }

// Set parses the argument. Its error is a sentence about the option.
func (a *argument) Set(token string) error {
	w, err := a.word(token)
	if err != nil {
		return fmt.Errorf("--%s: %w", a.name, err)
	}
	if err := a.set(w); err != nil {
		return fmt.Errorf("--%s %s %w", a.name, output.Quote(w.Text), err)
	}
	return nil
}

// word returns the word for a token, which for an option of the program is the argument itself.
func (a *argument) word(token string) (Word, error) {
	text, joined := strings.CutPrefix(token, joinMark)
	if joined || a.of == nil {
		return parseArg(text)
	}
	return a.of.words([]string{token})[0], nil
}

// flag adds an option that takes no argument.
func (c *Command) flag(p *bool, name, help string) { c.Flags().BoolVar(p, name, false, help) }

// option adds an option with an argument. set parses the argument; its error continues a
// sentence that begins with "--name argument". choices are offered as completions.
//
// For example, an error "is not a number from 1 up" becomes "scan: --limit three is not a number
// from 1 up".
func (c *Command) option(name, kind, help string, set func(w Word) error, choices ...string) {
	c.Flags().Var(&argument{name, kind, set, choices, c}, name, help)
}

// text adds an option whose argument is taken as it is.
func (c *Command) text(p *string, name, kind, help string) {
	c.option(name, kind, help, func(w Word) error { *p = w.Text; return nil })
}

// count adds an option whose argument is a number from 1 up.
func (c *Command) count(p *int, name, help string) {
	c.option(name, "N", help, func(w Word) error {
		n, err := strconv.Atoi(w.Text)
		if err != nil || n < 1 {
			return errors.New("is not a number from 1 up")
		}
		*p = n
		return nil
	})
}

// named adds an option whose argument is one of names, which stand for values.
func named[T any](c *Command, p *T, name, help string, names []string, values ...T) {
	c.Flags().Var(oneOf(c, p, name, names, values...), name, help)
}

// oneOf returns the argument of such an option of a command, or of the program if c is nil.
func oneOf[T any](c *Command, p *T, name string, names []string, values ...T) *argument {
	return &argument{name, strings.Join(names, "|"), func(w Word) error {
		i := slices.Index(names, w.Text)
		if i < 0 {
			return fmt.Errorf("is not one of %s%s", strings.Join(names, ", "), didYouMean(w.Text, names))
		}
		*p = values[i]
		return nil
	}, names, c}
}

// filterOptions adds the options that say what filters are written. of is the command that has them, or nil.
func filterOptions(set *pflag.FlagSet, of *Command, o *shale.Options) {
	set.Var(&argument{name: "bits", kind: "N", of: of, set: func(w Word) (err error) {
		if o.FilterBits, err = strconv.ParseFloat(w.Text, 64); err != nil || !(o.FilterBits > 0) {
			return errors.New("is not a number above 0")
		}
		return nil
	}}, "bits", "of filters: bits a key, averaged over the store; default 10")
	set.Var(oneOf(of, &o.Tuning.LastLevelFilter, "kind", []string{"blocked", "fuse"}, shale.BlockedFilter, shale.FuseFilter),
		"kind", "of filters of the last level: blocked, or fuse, with fewer false positives in the same memory")
	set.Var(oneOf(of, &o.Tuning.FilterHash, "hash", []string{"murmur3", "xxh3", "siphash"}, shale.Murmur3, shale.XXH3, shale.SipHash),
		"hash", "of filters: the hash function; siphash is for keys that strangers choose")
}

// key adds an option whose argument is a key; *p is nil if it is not given.
func (c *Command) key(p *[]byte, name, help string) {
	c.option(name, "KEY", help, func(w Word) error { *p = append([]byte{}, w.Text...); return nil })
}

// bounds are the options --from and --to.
type bounds struct{ from, to []byte }

// options adds the two options to a command.
func (b *bounds) options(c *Command) {
	c.key(&b.from, "from", "from this key up")
	c.key(&b.to, "to", "below this key")
}

// of returns the range of keys within --from and --to. If there is a word, it is the prefix of
// these keys.
func (b *bounds) of(words []Word) shale.Range {
	if len(words) > 0 {
		return b.within(shale.Prefix(words[0].Text))
	}
	return b.within(shale.Range{})
}

// within returns the keys of r that are within b: on each side, the narrower of the two counts.
func (b bounds) within(r shale.Range) shale.Range {
	if b.from != nil && string(b.from) > string(r.Lower) {
		r.Lower = b.from
	}
	if b.to != nil && (r.Upper == nil || string(b.to) < string(r.Upper)) {
		r.Upper = b.to
	}
	return r
}
