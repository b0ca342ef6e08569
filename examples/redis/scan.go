package main

import (
	"bytes"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/resp"
)

// newScans returns what the server remembers of calls of SCAN. No client should take a cursor for a number of
// something.
func newScans() *resp.Scans {
	return &resp.Scans{First: 1_000_001, Forgotten: "the server remembers the newest ones, and none from before its start"}
}

// scan is SCAN with MATCH and COUNT. Names come in their order, each once. Of those that
// begin with the fixed beginning of the pattern, it skips none; others it does not look at.
func (c *client) scan(args [][]byte) {
	scan := c.s.scans.Begin(&c.Session, args)
	if scan == nil {
		return
	}
	within := shale.Prefix(appendNameKey(nil, scan.Prefix))
	within.KeysOnly = true
	if from := appendNameKey(nil, scan.From); bytes.Compare(from, within.Lower) > 0 {
		within.Lower = from
	}
	for e, err := range c.s.db.Scan(within) {
		if err != nil {
			c.fail(err)
			return
		}
		if !scan.Add(e.Key[1:]) {
			break
		}
	}
	scan.Reply(&c.Session)
}
