package main

import (
	"bytes"

	"github.com/tidwall/redcon"

	"github.com/shaledb/shale/internal/resp"
)

// Limits of the commands of a pipeline that are written together.
const (
	mostTogether  = 256
	bytesTogether = 1 << 20
)

// leading returns how many commands at the begin of a pipeline can be one write of the
// store's log instead of a write each, and the function that does them: plain SETs, or
// BF.ADDs to one filter. It returns 1 and nil for any other command.
func leading(pipeline []redcon.Command) (n int, do func(c *client, cmds []redcon.Command)) {
	first := pipeline[0].Args
	if len(first) != 3 || len(first[1]) > maxName {
		return 1, nil
	}
	var fits func(args [][]byte) bool
	switch {
	case resp.Is(first[0], "SET"):
		do = (*client).setMany
		fits = func(args [][]byte) bool { return resp.Is(args[0], "SET") && len(args[1]) <= maxName }
	case resp.Is(first[0], "BF.ADD"):
		do = (*client).addMany
		fits = func(args [][]byte) bool { return resp.Is(args[0], "BF.ADD") && bytes.Equal(args[1], first[1]) }
	default:
		return 1, nil
	}
	size := 0
	for n = range min(len(pipeline), mostTogether) {
		cmd := pipeline[n]
		if size += len(cmd.Raw); len(cmd.Args) != 3 || !fits(cmd.Args) || n > 0 && size > bytesTogether {
			return n, do
		}
	}
	return n + 1, do
}

// setMany does SETs that leading has found.
func (c *client) setMany(sets []redcon.Command) {
	c.s.commands.Add(int64(len(sets)))
	names, values := make([][]byte, len(sets)), make([][]byte, len(sets))
	for i, cmd := range sets {
		names[i], values[i] = cmd.Args[1], cmd.Args[2]
	}
	h := c.s.stripes.lock(names...)
	defer c.s.stripes.unlock(h)
	err := c.putStrings(names, values, 0)
	for range sets {
		if err != nil {
			c.fail(err)
		} else {
			c.OK()
		}
	}
}

// addMany does BF.ADDs that leading has found. If one fails, the next ones are done each alone,
// as they may be in the filter already.
func (c *client) addMany(adds []redcon.Command) {
	c.s.commands.Add(int64(len(adds)))
	items := make([][]byte, len(adds))
	for i, cmd := range adds {
		items[i] = cmd.Args[2]
	}
	name := adds[0].Args[1]
	added, itemErr, err := c.insert(name, items, &byDefault)
	if err != nil {
		for range adds {
			c.fail(err)
		}
		return
	}
	for _, isNew := range added {
		c.Truth(isNew)
	}
	if itemErr != nil {
		c.fail(itemErr)
		for _, item := range items[len(added)+1:] {
			c.bfAdd([][]byte{name, item})
		}
	}
}
