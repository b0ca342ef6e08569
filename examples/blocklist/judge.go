package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom/sketch"
	"github.com/shaledb/shale/internal/input"
)

// A judge decides whether entries are listed. It counts what it does. One goroutine uses it.
type judge struct {
	filter filter        // of all names of the store; nil: only the store is asked
	exact  *sketch.Exact // the filter with its proven mistakes; nil: they are not remembered
	db     *shale.DB     // read-only: a name that it does not have stays absent

	names   int // names asked for: those of entries, and the domains above them
	spared  int // names that the filter denied
	lookups int // names that the store was asked for
	listed  int // names that were in the store
}

// has reports whether a name is listed. If the filter says no, that is certain. If it says
// maybe, the store decides.
func (j *judge) has(name string) (bool, error) {
	key := []byte(name)
	j.names++
	if j.filter == nil {
		return j.lookUp(key)
	}
	if !j.filter.MayContain(key) {
		j.spared++
		return false, nil
	}
	if j.exact == nil {
		return j.lookUp(key)
	}
	return j.exact.Lookup(key, j.lookUp)
}

func (j *judge) lookUp(key []byte) (bool, error) {
	j.lookups++
	there, err := j.db.Has(key)
	if there {
		j.listed++
	}
	return there, err
}

// entry returns the name for which an entry is listed: its own, or that of its host or of a
// domain above the host. It returns an empty name if the entry is not listed.
func (j *judge) entry(e entry) (by string, err error) {
	for name := range e.names() {
		there, err := j.has(name)
		if err != nil || there {
			return name, err
		}
	}
	return "", nil
}

// answer judges the lines of r and writes the answers to out. It opens the store read-only,
// so that several processes can answer at once.
func answer(ctx context.Context, c config, r io.Reader, out io.Writer) (err error) {
	filter, err := openFilter(c.filter)
	if err != nil {
		return err
	}
	db, err := shale.Open(c.db, &shale.Options{ReadOnly: true, CacheSize: c.cache})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	exact, err := sketch.NewExact(filter, sketch.ExactOptions{})
	if err != nil {
		return err
	}
	j := &judge{filter: filter, exact: exact, db: db}
	lines, bad := 0, 0
	s := bufio.NewScanner(input.Interruptible(ctx, r, nil))
	for s.Scan() {
		e, ok := entryOf(s.Text())
		if ok && e == (entry{}) {
			continue
		}
		lines++
		verdict := "unclear"
		if ok {
			by, err := j.entry(e)
			if err != nil {
				return err
			}
			if verdict = "ok"; by != "" {
				verdict = "listed as " + by
				bad++
			}
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", s.Bytes(), verdict); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil && ctx.Err() == nil {
		return err
	}
	fmt.Fprintf(out, "%d lines, %d of them listed; %d names looked up, %d of them found.\n", lines, bad, j.names, j.listed)
	absent := j.names - j.listed
	passed := absent - j.spared
	fmt.Fprintf(out, "The filter let pass %d of %d absent names: %.2f %%, predicted %.2f %%. The store refuted them, which took %d lookups; %d were saved because the name had been refuted before.\n",
		passed, absent, 100*float64(passed)/float64(max(absent, 1)), 100*filter.FPR(), j.lookups-j.listed, j.names-j.spared-j.lookups)
	m := db.Metrics()
	fmt.Fprintf(out, "The filter saved %d of %d lookups in the store. In the rest, the store's own filters saved %d blocks; %d blocks were read from disk and %d from the cache.\n",
		j.spared, j.names, m.FilterNegative, m.BlockReads, m.CacheHits)
	return nil
}
