// Command spellcheck finds words of a text that are certainly wrong. It has a filter of a
// dictionary in place of the dictionary: 370,000 English words in 440 kB. It is a complete
// example of a bloom.Static in a file.
//
// # Try it
//
// In a clone, with a sorted list of words, one a line, in words.txt:
//
//	go run ./examples/spellcheck -words words.txt -filter words.filter -build
//	echo 'We recieve thier lettres' | go run ./examples/spellcheck -filter words.filter
//	echo 'We recieve thier lettres' | go run ./examples/spellcheck -filter words.filter -words words.txt
//	go run ./examples/spellcheck -filter words.filter -words words.txt -measure
//
// The second has the filter only, and prints
//
//	1:4: recieve
//	1:12: thier
//	1:18: lettres
//	4 words, 3 of them wrong. 0.39 % of wrong words pass unseen.
//	The filter answered from 426024 bytes, and saved a list of the 370099 words that it is made from.
//
// The third has the list on disk too, and so can offer other words:
//
//	1:4: recieve: receive, relieve
//	1:12: thier: their, tier, thir, shier, trier
//	1:18: lettres: letters
//	4 words, 3 of them wrong; 827 candidates for suggestions.
//	The list proved 4 of 13 words wrong that the filter had let pass (predicted 3).
//	The filter answered 818 of 831 questions alone, which saved as many searches of the list; 13 searches took 18.4 reads each.
//
// The fourth prints
//
//	memory: 370099 words in a filter of 426024 bytes, in a map of 18568424: 44 times as much
//	misspellings: 358752, 1397 passed: 0.389 %, predicted 0.391 %
//	suggestions: of 519 candidates for a misspelling 3.8 pass, 2.0 by chance (predicted 2.0); the right word is among them for 100.0 %
//	The filter saves 98 % of the map's memory.
//
// # What the answers mean
//
// A word that is reported is certainly not in the list. A word that is not reported may
// still be wrong: one misspelling in 256 passes. A filter alone is not good at suggestions.
// It is asked for about 500 candidates, so that two pass by chance that are no words. So
// suggestions need -words: whatever passes the filter is looked up in the list, which stays
// on disk.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/shaledb/shale/bloom"
)

// A config is what the flags and arguments set.
type config struct {
	words, filter  string
	build, measure bool
	bits           float64
	suggest        int
	texts          []string
}

// parseFlags returns the config. It prints the usage to out if the arguments are wrong.
func parseFlags(args []string, out io.Writer) (config, error) {
	var c config
	set := flag.NewFlagSet("spellcheck", flag.ContinueOnError)
	set.SetOutput(out)
	set.StringVar(&c.words, "words", "", "the sorted list of words, one a line; the filter is made from it, or answers are checked with it")
	set.StringVar(&c.filter, "filter", "", "the file of the filter")
	set.BoolVar(&c.build, "build", false, "write the filter of -words to -filter")
	set.BoolVar(&c.measure, "measure", false, "misspell each word of -words, and print how many pass and how much memory is saved")
	set.Float64Var(&c.bits, "bits", 10, "with -build: bits a word")
	set.IntVar(&c.suggest, "suggest", 5, "the most suggestions for a word, which need -words")
	if err := set.Parse(args); err != nil {
		return c, err
	}
	c.texts = set.Args()
	bad := ""
	switch {
	case c.filter == "":
		bad = "-filter names a file"
	case (c.build || c.measure) && c.words == "":
		bad = "-build and -measure need -words"
	case c.build && c.measure:
		bad = "-build or -measure, one at a time"
	case (c.build || c.measure) && len(c.texts) > 0:
		bad = "no text is read with -build and -measure"
	case !(c.bits >= bloom.MinBits && c.bits <= bloom.MaxBits):
		bad = fmt.Sprintf("-bits is from %g to %g", bloom.MinBits, bloom.MaxBits)
	case c.suggest < 0:
		bad = "-suggest is 0 or more"
	}
	if bad != "" {
		set.Usage()
		return c, errors.New(bad)
	}
	return c, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parseFlags(os.Args[1:], os.Stderr)
	if err == nil {
		err = run(ctx, c, os.Stdin, os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "spellcheck:", err)
		os.Exit(1)
	}
}

// run does what c says. When ctx is done, it prints the summary of what it has
// checked until then.
func run(ctx context.Context, c config, stdin io.Reader, stdout io.Writer) (err error) {
	out := bufio.NewWriter(stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	if c.build {
		return build(c, out)
	}
	f, err := openFilter(c.filter)
	if err != nil {
		return err
	}
	var l *list
	if c.words != "" {
		if l, err = openList(c.words); err != nil {
			return err
		}
		defer l.Close() // opened for reading
	}
	if c.measure {
		return measure(ctx, f, l, out)
	}
	k := &checker{filter: f, list: l, most: c.suggest, out: out}
	if err := k.texts(ctx, c.texts, stdin); err != nil && ctx.Err() == nil {
		return err
	}
	k.summary()
	return nil
}

// build writes the filter of a list. It makes a fuse filter, which takes longer to
// build than a blocked one and has fewer false positives. That is the better choice for
// a filter that is built once.
func build(c config, out io.Writer) error {
	l, err := openList(c.words)
	if err != nil {
		return err
	}
	defer l.Close() // opened for reading
	var hashes []uint64
	for word, err := range l.all() {
		if err != nil {
			return err
		}
		hashes = append(hashes, bloom.Hash(word))
	}
	b, err := bloom.AppendStatic(nil, hashes, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: c.bits})
	if err != nil {
		return err
	}
	// The rename makes sure that a reader of the file gets the old filter or the new one.
	if err := os.WriteFile(c.filter+".tmp", b, 0o644); err != nil {
		return err
	}
	if err := os.Rename(c.filter+".tmp", c.filter); err != nil {
		return err
	}
	f, err := bloom.OpenStatic(b)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d words in %d bytes, %.2f bits each; %.2f %% of misspellings will pass.\n",
		c.filter, f.Count(), f.SizeBytes(), f.BitsPerKey(), 100*f.FPR())
	fmt.Fprintf(out, "The filter saves %.0f %% of the list's %d bytes.\n", 100-100*float64(f.SizeBytes())/float64(l.size), l.size)
	return nil
}

// openFilter reads the filter file, which may be of any kind and hash function.
func openFilter(name string) (*bloom.Static, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f, err := bloom.OpenStatic(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}
