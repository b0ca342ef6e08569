package command

import (
	"context"
	"fmt"
	"strconv"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// filterKinds and filterHashes are what the options of a rebuild may be.
var (
	filterKinds  = map[string]shale.FilterKind{"blocked": shale.BlockedFilter, "fuse": shale.FuseFilter}
	filterHashes = map[string]shale.FilterHash{"murmur3": shale.Murmur3, "xxh3": shale.XXH3, "siphash": shale.SipHash}
)

// rebuildFilters opens the store that the first word names, or that of the
// session, with the options given.
func rebuildFilters(ctx context.Context, s *Session, a Arguments) (Status, error) {
	dir, err := s.folder(a.Words)
	if err != nil {
		return Failed, err
	}
	if s.readOnly {
		return Failed, fmt.Errorf("filters rebuild writes, and -readonly was given")
	}
	opts, err := a.filterOptions()
	if err != nil {
		return Failed, err
	}
	// The session may have the store open, under other options. The next command
	// opens it again.
	if dir == s.Dir {
		if err := s.Close(); err != nil {
			return Failed, err
		}
	}
	opts.MustExist, opts.OnEvent = true, s.onEvent
	db, err := shale.Open(dir, opts)
	if err != nil {
		return Failed, openError(dir, err)
	}
	r, err := db.RebuildFilters(ctx)
	if cerr := db.Close(); err == nil {
		err = cerr
	}
	if r.Tables > 0 {
		fmt.Fprintf(s.remarks(), "%d of %s got new filters: %s in files, filters %s before, %s now\n", r.Rebuilt, output.Plural(r.Tables, "table"),
			base.FormatBytes(r.BytesWritten), base.FormatBytes(r.FilterBytesBefore), base.FormatBytes(r.FilterBytesAfter))
	}
	return Found, err
}

// filterOptions returns the options of a handle as the command has them.
func (a Arguments) filterOptions() (*shale.Options, error) {
	o := new(shale.Options)
	if text, given := a.values["bits"]; given {
		bits, err := strconv.ParseFloat(text, 64)
		if err != nil || !(bits > 0) {
			return nil, fmt.Errorf("--bits %s: not a number above 0", output.Quote(text))
		}
		o.FilterBits = bits
	}
	var known bool
	if text, given := a.values["kind"]; given {
		if o.LastLevelFilter, known = filterKinds[text]; !known {
			return nil, fmt.Errorf("--kind %s: want blocked or fuse", output.Quote(text))
		}
	}
	if text, given := a.values["hash"]; given {
		if o.FilterHash, known = filterHashes[text]; !known {
			return nil, fmt.Errorf("--hash %s: want murmur3, xxh3 or siphash", output.Quote(text))
		}
	}
	return o, nil
}
