package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/input"
)

// A tally counts the verdicts of samples.
type tally struct {
	samples, known, added, refused, bad int
}

func (n *tally) count(v verdict) {
	n.samples++
	switch v {
	case known:
		n.known++
	case added:
		n.added++
	case refused:
		n.refused++
	}
}

// maxName is the length of the longest name in bytes.
const maxName = 1024

// parseSample reads a line of Graphite's plain text protocol: a name, a value, and a time in
// seconds since 1970. A name with labels, as Prometheus writes it, may have no spaces.
func parseSample(line string) (name string, second int64, ok bool) {
	fields := strings.Fields(line)
	if len(fields) != 3 || len(fields[0]) > maxName {
		return "", 0, false
	}
	if _, err := strconv.ParseFloat(fields[1], 64); err != nil {
		return "", 0, false
	}
	second, err := strconv.ParseInt(fields[2], 10, 64)
	return fields[0], second, err == nil
}

// read takes samples from r until it ends or ctx is done. It writes the names that are new to
// out, and then a summary.
func read(ctx context.Context, c config, r io.Reader, out io.Writer) (err error) {
	x, err := openIndex(c.db, c.limit, shale.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	var n tally
	s := bufio.NewScanner(input.Interruptible(ctx, r, nil))
	for s.Scan() {
		name, second, ok := parseSample(s.Text())
		if !ok {
			n.samples++
			n.bad++
			continue
		}
		v, err := x.sample(name, second)
		if err != nil {
			return err
		}
		n.count(v)
		if v == added {
			if _, err := fmt.Fprintln(out, "new", name); err != nil {
				return err
			}
		}
	}
	if err := s.Err(); err != nil && ctx.Err() == nil {
		return err
	}
	m := x.db.Metrics()
	_, err = fmt.Fprintf(out, "%d samples: %d of known names, %d of new ones, %d refused, %d not understood.\n%d lookups found no name; %d of them had to search a block.\n",
		n.samples, n.known, n.added, n.refused, n.bad, m.GetMisses, m.FilterFalsePositive+m.NoFilter)
	return err
}
