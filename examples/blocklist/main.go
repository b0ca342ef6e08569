// Command blocklist decides whether hosts, mail addresses and URLs are on a list of a million
// bad ones. A filter in a file answers for nearly all good ones, and a store for the rest. It
// is an example of a bloom.Blocked in front of a shale.DB, and of a sketch.Exact, which
// remembers mistakes of the filter.
//
//	printf 'bad.example\nspam@mail.example\nhttp://www.example/virus\n' > list.txt
//	go run ./examples/blocklist load bad.db < list.txt
//	printf 'Any <any@www.bad.example>\nham@mail.example\nHTTP://WWW.example/virus#now\n' |
//		go run ./examples/blocklist judge bad.db
//
// The second go run prints, before its totals:
//
//	Any <any@www.bad.example>: listed as bad.example
//	ham@mail.example: ok
//	HTTP://WWW.example/virus#now: listed as http://www.example/virus
//
// With a list of 1.1 million bad hosts, and asked for 34,904 good ones, the totals are
//
//	1109722 names are in the store, and in a filter of 1664672 bytes.
//	The filter let pass 304 of 67745 absent names, predicted 277. The store was asked 173 times for 67745 names.
//
// A host is listed if the list has it, or has a domain above it that is not a top-level domain.
// A mail address or a URL is listed if the list has it, or if its host is listed. A line of the
// list that begins with a minus is taken off the list.
//
// All answers are exact: what passes the filter is looked up in the store. The filter describes
// the store as the last load has left it. It may have names that the store does not have; they
// only cost lookups. It must not lack any: those would be called good. So load removes the old
// filter first, and writes the new one last.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/sketch"
	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/vfs"
)

// bitsPerName is the size of the filter: 0.4 % of good names pass.
const bitsPerName = 12

// names returns the names for which a line is listed: its own first, and then that of its host
// and those of the domains above. It returns none if the line is neither a host nor a mail
// address nor a URL.
func names(line string) (all []string) {
	host := strings.ToLower(line)
	if u, err := url.Parse(line); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		u.Host, u.Fragment = strings.ToLower(u.Host), ""
		all, host = append(all, u.String()), u.Hostname()
	} else if m, err := mail.ParseAddress(line); err == nil {
		address := strings.ToLower(m.Address)
		all, host = append(all, address), address[strings.LastIndexByte(address, '@')+1:]
	}
	host = strings.TrimSuffix(host, ".")
	if host == "" || len(host) > 253 || strings.ContainsAny(host, " \t<>,;\"/@") {
		return nil
	}
	all = append(all, host)
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return all // an IP address has no domains above it
	}
	for {
		_, above, ok := strings.Cut(host, ".")
		if !ok || !strings.Contains(above, ".") {
			return all
		}
		all, host = append(all, above), above
	}
}

// load adds the lines of r to the store in dir, takes off those with a minus, and writes a
// filter of all names that the store has then.
func load(ctx context.Context, dir string, r io.Reader, out io.Writer) (err error) {
	if err := os.Remove(filterOf(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := vfs.Default.SyncDir(filepath.Dir(filterOf(dir))); err != nil { // it does not come back after a power cut
		return err
	}
	db, err := shale.Open(dir, &shale.Options{Durability: shale.SyncManual})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s := bufio.NewScanner(r)
	for s.Scan() {
		line, off := strings.CutPrefix(strings.TrimSpace(s.Text()), "-")
		all := names(line)
		switch {
		case line == "":
		case all == nil:
			err = fmt.Errorf("%.80q is not a host, a mail address or a URL", line)
		case off:
			err = db.Delete([]byte(all[0]))
		default:
			err = db.Put([]byte(all[0]), nil)
		}
		if err != nil {
			return fmt.Errorf("there is no filter now; load again: %w", err)
		}
	}
	if err := errors.Join(s.Err(), db.Compact(ctx, shale.Range{})); err != nil { // one run: a lookup asks one table
		return err
	}
	var hashes []uint64
	for e, err := range db.Scan(shale.Range{KeysOnly: true}) {
		if err != nil {
			return err
		}
		hashes = append(hashes, bloom.Hash(e.Key))
	}
	b := bloom.AppendBlocked(nil, hashes, bitsPerName)
	fmt.Fprintf(out, "%d names are in the store, and in a filter of %d bytes.\n", len(hashes), len(b))
	return errors.Join(db.Sync(), outfile.ReplaceBytes(filterOf(dir), b))
}

// filterOf returns the name of the filter's file.
func filterOf(dir string) string { return filepath.Clean(dir) + ".filter" }

// A judge decides which lines are listed. One goroutine uses it.
type judge struct {
	filter *bloom.Blocked
	exact  *sketch.Exact // the filter with its proven mistakes
	db     *shale.DB     // read-only: a name that it does not have stays absent

	asked, passed, lookups, listed int // names
}

// has reports whether a name is listed. If the filter says no, that is certain. If it says
// maybe, the store decides. A good host that passes the filter would pass each time, and the
// store would be asked for it often if it is popular: exact remembers that the store has
// refuted it.
func (j *judge) has(name string) (bool, error) {
	j.asked++
	if !j.filter.MayContainString(name) {
		return false, nil
	}
	j.passed++
	there, err := j.exact.Lookup([]byte(name), func(key []byte) (bool, error) {
		j.lookups++
		return j.db.Has(key)
	})
	if there {
		j.listed++
	}
	return there, err
}

// line returns the verdict on a line.
func (j *judge) line(line string) (verdict string, err error) {
	all := names(line)
	if all == nil {
		return "unclear", nil
	}
	for _, name := range all {
		if there, err := j.has(name); err != nil || there {
			return "listed as " + name, err
		}
	}
	return "ok", nil
}

// answer judges the lines of r. It opens the store read-only, so that several processes can
// answer at once.
func answer(dir string, r io.Reader, out io.Writer) (err error) {
	b, err := os.ReadFile(filterOf(dir))
	if err != nil {
		return err
	}
	filter, err := bloom.OpenBlocked(b)
	if err != nil {
		return err
	}
	exact, err := sketch.NewExact(filter, sketch.ExactOptions{})
	if err != nil {
		return err
	}
	db, err := shale.Open(dir, &shale.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	j := &judge{filter: filter, exact: exact, db: db}
	s := bufio.NewScanner(r)
	for s.Scan() {
		verdict, err := j.line(s.Text())
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s\n", s.Bytes(), verdict)
	}
	fmt.Fprintf(out, "The filter let pass %d of %d absent names, predicted %.0f. The store was asked %d times for %d names.\n",
		j.passed-j.listed, j.asked-j.listed, filter.FPR()*float64(j.asked-j.listed), j.lookups, j.asked)
	return s.Err()
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 || os.Args[1] != "load" && os.Args[1] != "judge" {
		log.Fatal("usage: blocklist load DIR < list, or blocklist judge DIR < lines")
	}
	out := bufio.NewWriter(os.Stdout)
	var err error
	if dir := os.Args[2]; os.Args[1] == "load" {
		err = load(context.Background(), dir, os.Stdin, out)
	} else {
		err = answer(dir, os.Stdin, out)
	}
	if err := errors.Join(err, out.Flush()); err != nil {
		log.Fatal(err)
	}
}
