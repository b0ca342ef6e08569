package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
)

// filterKinds and filterHashes are what the options of a rebuild may be.
var (
	filterKinds  = map[string]shale.FilterKind{"blocked": shale.BlockedFilter, "fuse": shale.FuseFilter}
	filterHashes = map[string]shale.FilterHash{"murmur3": shale.Murmur3, "xxh3": shale.XXH3, "siphash": shale.SipHash}
)

// rebuildFilters opens the store that the first word names, or that of the
// session, with the options given.
func rebuildFilters(ctx context.Context, s *session, a arguments) (status, error) {
	dir, err := s.folder(a.words)
	if err != nil {
		return failed, err
	}
	if s.readOnly {
		return failed, fmt.Errorf("filters rebuild writes, and -readonly was given")
	}
	opts, err := a.filterOptions()
	if err != nil {
		return failed, err
	}
	// The session may have the store open, under other options. The next command
	// opens it again.
	if dir == s.dir {
		if err := s.close(); err != nil {
			return failed, err
		}
	}
	opts.MustExist, opts.OnEvent = true, s.onEvent
	db, err := shale.Open(dir, opts)
	if err != nil {
		return failed, openError(dir, err)
	}
	r, err := db.RebuildFilters(ctx)
	if cerr := db.Close(); err == nil {
		err = cerr
	}
	if r.Tables > 0 {
		fmt.Fprintf(s.remarks(), "%d of %s got new filters: %s in files, filters %s before, %s now\n", r.Rebuilt, plural(r.Tables, "table"),
			base.FormatBytes(r.BytesWritten), base.FormatBytes(r.FilterBytesBefore), base.FormatBytes(r.FilterBytesAfter))
	}
	return found, err
}

// filterOptions returns the options of a handle as the command has them.
func (a arguments) filterOptions() (*shale.Options, error) {
	o := new(shale.Options)
	if text, given := a.values["bits"]; given {
		bits, err := strconv.ParseFloat(text, 64)
		if err != nil || !(bits > 0) {
			return nil, fmt.Errorf("--bits %s: not a number above 0", quote(text))
		}
		o.FilterBits = bits
	}
	var known bool
	if text, given := a.values["kind"]; given {
		if o.LastLevelFilter, known = filterKinds[text]; !known {
			return nil, fmt.Errorf("--kind %s: want blocked or fuse", quote(text))
		}
	}
	if text, given := a.values["hash"]; given {
		if o.FilterHash, known = filterHashes[text]; !known {
			return nil, fmt.Errorf("--hash %s: want murmur3, xxh3 or siphash", quote(text))
		}
	}
	return o, nil
}
