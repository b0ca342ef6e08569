package server

import (
	"bytes"
	"errors"
	"math/rand/v2"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// scanBytes is how many bytes of keys one call of SCAN looks at.
const scanBytes = 1 << 20

// newScans returns what this member remembers of calls of SCAN. The leader of the group has nothing to do with them:
// SCAN goes on through elections, on any member, as long as the client stays with the member that it has begun with.
//
// Cursors have the form run<<32 | n, where run is drawn at random when the server starts. So a cursor of
// another member, or of an earlier life of this one, is not taken for one of these. They are below
// 2^53, because some clients have them in floating-point numbers.
func newScans() *resp.Scans {
	return &resp.Scans{
		First:     uint64(1+rand.Uint32N(1<<21-1))<<32 + 1,
		MostBytes: scanBytes,
		Forgotten: "each member remembers the newest ones that it has given since its start; begin again with 0",
	}
}

// scan is SCAN with MATCH, COUNT and TYPE. Keys come in their order, each once. If the pattern begins with
// fixed bytes, it looks only at keys that begin with them.
//
// Each call is a read of the group of its own. So a SCAN sees no one moment, but a key that is
// there from its first call to its last is given once: keys are in order, and the cursor stands for
// the place after the last.
func (c *client) scan(r shale.Reader, args [][]byte) error {
	scan := c.s.scans.Begin(&c.Session, args)
	if scan == nil {
		return nil
	}
	within := shale.Prefix(appendName(nil, scan.Prefix))
	within.KeysOnly = scan.Type == ""
	if from := appendName(nil, scan.From); bytes.Compare(from, within.Lower) > 0 {
		within.Lower = from
	}
	for e, err := range r.Scan(within) {
		if err != nil {
			return err
		}
		name := ""
		if scan.Type != "" {
			if name, err = typeName(e.Value); err != nil {
				return err
			}
		}
		if !scan.Add(e.Key[1:], name) {
			break
		}
	}
	scan.Reply(&c.Session)
	return nil
}

// dbSize is DBSIZE. The store does not count its keys, so this walks over all of them.
func (c *client) dbSize(r shale.Reader, _ [][]byte) error {
	n := int64(0)
	within := shale.Prefix([]byte{nameSpace})
	within.KeysOnly = true
	for _, err := range r.Scan(within) {
		if n++; err == nil && n%4096 == 0 && c.s.ctx.Err() != nil {
			err = errors.New("the server stops")
		}
		if err != nil {
			return err
		}
	}
	c.Integer(n)
	return nil
}
