package command

import (
	"context"
	"errors"
	"iter"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/shaledb/shale"
)

// A pattern is what --match and --grep ask for. The zero value fits every entry.
type pattern struct {
	keys   *regexp.Regexp // of --match
	prefix string         // all keys that fit begin with it
	text   *regexp.Regexp // of --grep
}

// options adds the two options to a command.
func (p *pattern) options(c *Command) {
	c.option("match", "PATTERN", `only keys of this form: * is any text, ? one character, [a-z] one of some`, func(w Word) (err error) {
		p.keys, p.prefix, err = compileGlob(w.Text)
		return err
	})
	c.option("grep", "REGEXP", "only entries that have this regular expression in their key or value", func(w Word) (err error) {
		p.text, err = regexp.Compile(w.Text)
		return patternError(err, "a regular expression")
	})
}

// compileGlob returns the regular expression of a pattern as of shells and redis, and the text with which
// everything begins that fits. As in redis, * also stands for separators, which keys do not have in one form.
func compileGlob(glob string) (re *regexp.Regexp, prefix string, err error) {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	literal := true // so far, all of it is the prefix
	add := func(text string) {
		b.WriteString(regexp.QuoteMeta(text))
		if literal {
			prefix += text
		}
	}
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*':
			b.WriteString(`.*`)
		case '?':
			b.WriteString(`.`)
		case '[':
			end := strings.IndexByte(glob[i+1:], ']')
			if end < 1 {
				return nil, "", errors.New(`has a [ without its ]; \[ is the character`)
			}
			class := glob[i+1 : i+1+end]
			if class[0] == '!' {
				class = "^" + class[1:]
			}
			b.WriteString("[" + strings.ReplaceAll(class, "[", `\[`) + "]")
			i += 1 + end
		case '\\':
			if i++; i == len(glob) {
				return nil, "", errors.New(`ends with a \, which is for the character after it`)
			}
			add(glob[i : i+1])
			continue
		default:
			add(glob[i : i+1])
			continue
		}
		literal = false
	}
	re, err = regexp.Compile(b.String() + `\z`)
	return re, prefix, patternError(err, "a pattern")
}

// patternError continues a sentence that begins with a pattern, which can't be compiled.
func patternError(err error, what string) error {
	if bad := new(syntax.Error); errors.As(err, &bad) {
		return errors.New("is not " + what + ": " + bad.Code.String())
	}
	return err
}

// fits reports whether an entry is asked for.
func (p *pattern) fits(e shale.Entry) bool {
	return (p.keys == nil || p.keys.Match(e.Key)) && (p.text == nil || p.text.Match(e.Key) || p.text.Match(e.Value))
}

// entries returns the entries of r that fit p, and ends with an error if ctx does.
func (s *Session) entries(ctx context.Context, r shale.Range, p *pattern) iter.Seq2[shale.Entry, error] {
	left := r.Limit
	if p.keys != nil || p.text != nil {
		r.Limit = 0 // it is a limit of what fits
		r.KeysOnly = r.KeysOnly && p.text == nil
	}
	within := bounds{from: r.Lower, to: r.Upper}.within(shale.Prefix(p.prefix))
	r.Lower, r.Upper = within.Lower, within.Upper
	return func(yield func(shale.Entry, error) bool) {
		for e, err := range s.reader().Scan(r) {
			if err == nil {
				err = ctx.Err()
			}
			if err == nil && !p.fits(e) {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}
