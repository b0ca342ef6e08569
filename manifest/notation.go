package manifest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
)

// The notation of versions in tests and tools. A line is a run, newest first:
//
//	L0.12: 000012:[a-f]
//	L1: 000007:[a-c] 000009:[d-"f\xff"]
//
// The run's number is left out if it is 0. Keys that are not plain words are
// quoted as in Go. Behind a table its properties may follow:
//
//	000007:[a-c]{size=64M,seq=3-9,entries=100,del=5,keys=90,filter=10,sidecar=000012/4165/4096/16}
//
// Of entries that expire, expiring=3/10/10/20/20/30/30/40/40/40 has their number and times.
// A sidecar has number, size, and the bytes and bits a key of its filter. A last line has the range deletes, each part of the
// keys with the numbers that cover it, and without an upper bound if there is none:
//
//	spans: [a-c)@9,4 [x-)@4
//
// ParseVersion gives a table without them size 100, ten entries and ten keys,
// and in level 0 the run's number as its sequence number.

// String returns the notation without properties.
func (v *Version) String() string { return v.format((*Table).String) }

// Describe returns the notation with properties.
func (v *Version) Describe() string { return v.format((*Table).describe) }

// format returns the notation. table returns the part of one table.
func (v *Version) format(table func(*Table) string) string {
	var b strings.Builder
	for level := range v.Levels {
		for _, run := range v.Levels[level].Runs {
			b.WriteString(runName(level, run.ID))
			b.WriteByte(':')
			for _, t := range run.Tables {
				b.WriteByte(' ')
				b.WriteString(table(t))
			}
			b.WriteByte('\n')
		}
	}
	if !v.Spans.Empty() {
		fmt.Fprintf(&b, "spans:%s\n", describeSpans(v.Spans))
	}
	return b.String()
}

// describeSpans returns the notation of range deletes, with a space before each.
func describeSpans(s *spans.Set) string {
	var b strings.Builder
	for f := range s.All() {
		upper := ""
		if f.Upper != nil {
			upper = quoteKey(f.Upper)
		}
		fmt.Fprintf(&b, " [%s-%s)", quoteKey(f.Lower), upper)
		sep := '@'
		for seq := range f.Seqs() {
			fmt.Fprintf(&b, "%c%d", sep, seq)
			sep = ','
		}
	}
	return b.String()
}

// parseSpans is the inverse of describeSpans.
func parseSpans(s string) (set *spans.Set, err error) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		rest, ok := strings.CutPrefix(s, "[")
		if !ok {
			return nil, fmt.Errorf("spans %q", s)
		}
		var lower, upper []byte
		if lower, rest, err = parseKey(rest, "-"); err != nil {
			return nil, err
		}
		if open, found := strings.CutPrefix(rest, ")"); found {
			rest = open
		} else if upper, rest, err = parseKey(rest, ")"); err != nil {
			return nil, err
		}
		numbers, rest, _ := strings.Cut(strings.TrimPrefix(rest, "@"), " ")
		for number := range strings.SplitSeq(numbers, ",") {
			seq, err := strconv.ParseUint(number, 10, 56)
			if err != nil {
				return nil, err
			}
			set = set.With(lower, upper, base.Seq(seq))
		}
		s = rest
	}
	return set, nil
}

// runName returns the name of a run, such as L0.12.
func runName(level int, run uint64) string {
	if run == 0 {
		return fmt.Sprintf("L%d", level)
	}
	return fmt.Sprintf("L%d.%d", level, run)
}

// String returns the table's number and bounds.
func (t *Table) String() string {
	return fmt.Sprintf("%s:[%s-%s]", t.Num, quoteKey(t.Smallest), quoteKey(t.Largest))
}

// describe returns the table's number, bounds and properties.
func (t *Table) describe() string {
	sidecar := ""
	if t.Sidecar != nil {
		sidecar = ",sidecar=" + t.Sidecar.String()
	}
	if t.Clean != 0 {
		sidecar = fmt.Sprintf(",clean=%d%s", t.Clean, sidecar)
	}
	return fmt.Sprintf("%s{size=%d,seq=%d-%d,entries=%d,del=%d,keys=%d,filter=%v%s%s}",
		t, t.Size, t.MinSeq, t.MaxSeq, t.Entries, t.Tombstones, t.Keys, t.FilterBits, sidecar, t.describeExpiring())
}

// String returns a line for each change.
func (e *Edit) String() string {
	var b strings.Builder
	number := func(name string, n uint64) {
		if n != 0 {
			fmt.Fprintf(&b, "%s %d\n", name, n)
		}
	}
	number("next-file", uint64(e.NextFileNum))
	number("last-seq", uint64(e.LastSeq))
	number("new-log", uint64(e.NewLog))
	if s := e.SealedLog; s != nil {
		fmt.Fprintf(&b, "sealed-log %d length %d last-seq %d\n", s.Num, s.Length, s.LastSeq)
	}
	number("min-log", uint64(e.MinLog))
	number("clock", uint64(e.Clock))
	if e.Elsewhere != "" {
		fmt.Fprintf(&b, "elsewhere %q\n", e.Elsewhere)
	}
	for _, r := range e.Removed {
		fmt.Fprintf(&b, "remove L%d %s\n", r.Level, r.Num)
	}
	for _, a := range e.Added {
		fmt.Fprintf(&b, "add %s %s\n", runName(a.Level, a.Run), a.Table.describe())
	}
	for _, s := range e.Sidecars {
		fmt.Fprintf(&b, "beside L%d %s %s\n", s.Level, s.Num, s.Sidecar)
	}
	for _, f := range e.Finished {
		upper := ""
		if f.Upper != nil {
			upper = quoteKey(f.Upper)
		}
		fmt.Fprintf(&b, "finished [%s-%s) up to %d\n", quoteKey(f.Lower), upper, f.Seq)
	}
	if !e.Spans.Empty() {
		fmt.Fprintf(&b, "spans%s\n", describeSpans(e.Spans))
	}
	for _, s := range e.Sessions {
		fmt.Fprintf(&b, "session %016x from %d log %d\n", s.ID, s.From, s.Log)
	}
	return b.String()
}

// plain reports whether a key with the byte c need not be quoted for it.
func plain(c byte) bool {
	return c > ' ' && c < 0x7f && !strings.ContainsRune(`-[]{},:"`, rune(c))
}

// quoteKey returns a key for the notation, quoted if necessary.
func quoteKey(key []byte) string {
	for _, c := range key {
		if !plain(c) {
			return strconv.Quote(string(key))
		}
	}
	if len(key) == 0 {
		return `""`
	}
	return string(key)
}

// ParseVersion reads the notation. It is for tests and tools, so it accepts versions that a
// store would never have. Check does not.
func ParseVersion(text string) (*Version, error) {
	var e Edit
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		if !ok {
			if strings.TrimSpace(line) == "" {
				continue
			}
			return nil, fmt.Errorf("manifest: line %q has no colon", line)
		}
		if name == "spans" {
			set, err := parseSpans(rest)
			if err != nil {
				return nil, fmt.Errorf("manifest: line %q: %w", line, err)
			}
			e.Spans = set
			continue
		}
		level, run, err := parseRunName(name)
		if err != nil {
			return nil, fmt.Errorf("manifest: line %q: %w", line, err)
		}
		for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
			t, tail, err := parseTable(rest, level, run)
			if err != nil {
				return nil, fmt.Errorf("manifest: table %q: %w", rest, err)
			}
			e.Added = append(e.Added, Added{Level: level, Run: run, Table: t})
			rest = tail
		}
	}
	v, err := new(Version).Apply(&e)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return v, nil
}

// parseRunName is the inverse of runName.
func parseRunName(s string) (level int, run uint64, err error) {
	s, ok := strings.CutPrefix(strings.TrimSpace(s), "L")
	if !ok {
		return 0, 0, fmt.Errorf("level %q", s)
	}
	s, id, hasRun := strings.Cut(s, ".")
	if hasRun {
		if run, err = strconv.ParseUint(id, 10, 64); err != nil {
			return 0, 0, err
		}
	}
	level, err = strconv.Atoi(s)
	return level, run, err
}

// parseTable reads a table from the front of s. It returns the rest of s.
func parseTable(s string, level int, run uint64) (t *Table, rest string, err error) {
	num, rest, ok := strings.Cut(s, ":[")
	n, err := strconv.ParseUint(num, 10, 64)
	if !ok || err != nil {
		return nil, "", fmt.Errorf("number %q", num)
	}
	// Defaults that Check accepts. Invariant 6 wants higher sequence numbers in newer runs of
	// level 0, and the numbers of the runs are such.
	t = &Table{Num: base.FileNum(n), Size: 100, Entries: 10, Keys: 10}
	if level == 0 {
		t.MinSeq, t.MaxSeq = base.Seq(run), base.Seq(run)
	}
	if t.Smallest, rest, err = parseKey(rest, "-"); err != nil {
		return nil, "", err
	}
	if t.Largest, rest, err = parseKey(rest, "]"); err != nil {
		return nil, "", err
	}
	if !strings.HasPrefix(rest, "{") {
		return t, rest, nil
	}
	props, rest, ok := strings.Cut(rest[1:], "}")
	if !ok {
		return nil, "", fmt.Errorf("properties %q have no end", props)
	}
	for prop := range strings.SplitSeq(props, ",") {
		if err := t.parseProperty(prop); err != nil {
			return nil, "", fmt.Errorf("property %q: %w", prop, err)
		}
	}
	return t, rest, nil
}

// parseKey reads a key, and the delimiter behind it, from the front of s. It returns the rest
// of s.
func parseKey(s, delim string) (key []byte, rest string, err error) {
	n := 0
	if strings.HasPrefix(s, `"`) {
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return nil, "", fmt.Errorf("key %q: %w", s, err)
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, "", fmt.Errorf("key %q: %w", s, err)
		}
		key, n = []byte(word), len(quoted)
	} else {
		for n < len(s) && plain(s[n]) {
			n++
		}
		key = []byte(s[:n])
	}
	rest, ok := strings.CutPrefix(s[n:], delim)
	if !ok {
		return nil, "", fmt.Errorf("no %q behind key %q", delim, key)
	}
	return key, rest, nil
}

// parseProperty sets the property of t that s names, such as size=64M.
func (t *Table) parseProperty(s string) error {
	name, value, _ := strings.Cut(s, "=")
	if name == "filter" {
		bits, err := strconv.ParseFloat(value, 64)
		t.FilterBits = bits
		return err
	}
	if name == "sidecar" {
		side, err := parseSidecar(value)
		t.Sidecar = side
		return err
	}
	if name == "expiring" {
		return t.parseExpiring(value)
	}
	if name == "seq" {
		lo, hi, ok := strings.Cut(value, "-")
		if !ok {
			hi = lo
		}
		low, err1 := strconv.ParseUint(lo, 10, 56)
		high, err2 := strconv.ParseUint(hi, 10, 56)
		t.MinSeq, t.MaxSeq = base.Seq(low), base.Seq(high)
		if err1 != nil {
			return err1
		}
		return err2
	}
	n, err := parseSize(value)
	switch name {
	case "size":
		t.Size = int64(n)
	case "clean":
		t.Clean = base.Seq(n)
	case "entries":
		t.Entries = n
	case "del":
		t.Tombstones = n
	case "keys":
		t.Keys = n
	default:
		return fmt.Errorf("unknown")
	}
	return err
}

// parseSize reads a number that may have a binary unit, such as 64M.
func parseSize(s string) (uint64, error) {
	shift := 0
	if n := len(s) - 1; n > 0 {
		if unit := strings.IndexByte("KMGT", s[n]); unit >= 0 {
			s, shift = s[:n], 10*(unit+1)
		}
	}
	n, err := strconv.ParseUint(s, 10, 63-shift)
	return n << shift, err
}
