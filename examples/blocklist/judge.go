package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/input"
)

// A judge decides whether hosts are listed. It counts what it does. One goroutine uses it.
type judge struct {
	filter *bloom.Blocked // of all keys of the store; nil: only the store is asked
	db     *shale.DB

	names   int // names asked for: hosts and the domains above them
	spared  int // names that the filter denied
	refuted int // names that passed the filter and were not in the store
	listed  int // names that were in the store
}

// has reports whether a name is listed. If the filter says no, that is certain. If it
// says maybe, the store decides.
func (j *judge) has(name string) (bool, error) {
	key := []byte(name)
	j.names++
	if j.filter != nil && !j.filter.MayContainHash(bloom.Hash(key)) {
		j.spared++
		return false, nil
	}
	there, err := j.db.Has(key)
	switch {
	case err != nil:
	case there:
		j.listed++
	default:
		j.refuted++
	}
	return there, err
}

// host returns the name for which a host is listed: its own, or that of a domain above it.
// It returns an empty name if the host is not listed.
func (j *judge) host(host string) (by string, err error) {
	for name := range withParents(host) {
		there, err := j.has(name)
		if err != nil || there {
			return name, err
		}
	}
	return "", nil
}

// withParents yields a host and the domains above it, except for top-level domains. An IP
// address has no domains above it.
func withParents(host string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !yield(host) {
			return
		}
		if _, err := netip.ParseAddr(host); err == nil {
			return
		}
		for {
			_, above, ok := strings.Cut(host, ".")
			if !ok || !strings.Contains(above, ".") || !yield(above) {
				return
			}
			host = above
		}
	}
}

// hostOf returns the host of a line. In a mail address that is what follows the last @. It
// returns an empty host for an empty line and for a comment; ok is false if a line has no
// host. Names are not converted: those that are not ASCII have to be in Punycode.
func hostOf(line string) (host string, ok bool) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return "", true
	}
	line = strings.TrimSuffix(line, ">") // name <user@host>
	host = strings.ToLower(line[strings.LastIndexByte(line, '@')+1:])
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	return host, host != "" && len(host) <= 253 && !strings.ContainsAny(host, " \t<>,;\"/")
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
	j := &judge{filter: filter, db: db}
	lines, bad := 0, 0
	s := bufio.NewScanner(input.Interruptible(ctx, r, nil))
	for s.Scan() {
		host, ok := hostOf(s.Text())
		if ok && host == "" {
			continue
		}
		lines++
		verdict := "unclear"
		if ok {
			by, err := j.host(host)
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
	fmt.Fprintf(out, "The filter let pass %d of %d absent names: %.2f %%, predicted %.2f %%. The exact check refuted them.\n",
		j.refuted, absent, 100*float64(j.refuted)/float64(max(absent, 1)), 100*filter.FPR())
	m := db.Metrics()
	fmt.Fprintf(out, "The filter saved %d of %d lookups in the store. In the rest, the store's own filters saved %d blocks; %d blocks were read from disk and %d from the cache.\n",
		j.spared, j.names, m.FilterNegative, m.BlockReads, m.CacheHits)
	return nil
}
