package server

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// Commands about the connection and the server itself. They do not ask the group, and so are
// answered while it has no leader: a client that connects then can still find out where it is.

// redisVersion is the version of Redis whose replies the server gives.
const redisVersion = "7.0.15"

// ping is PING.
func (c *client) ping(args [][]byte) {
	switch len(args) {
	case 0:
		c.Simple("PONG")
	case 1:
		c.Bulk(args[0])
	default:
		c.WrongArity("PING")
	}
}

// echo is ECHO.
func (c *client) echo(args [][]byte) { c.Bulk(args[0]) }

// selectDB is SELECT. There is one database, with number 0.
func (c *client) selectDB(args [][]byte) {
	switch n, ok := resp.ParseInt(args[0]); {
	case !ok:
		c.Error(string(errNoInteger))
	case n != 0:
		c.Error("ERR DB index is out of range")
	default:
		c.OK()
	}
}

// doQuit is QUIT.
func (c *client) doQuit([][]byte) {
	c.quit = true
	c.OK()
}

// greet is the reply to HELLO, in the protocol that the client has chosen.
func (c *client) greet(mode, role string) {
	proto := 2
	if c.RESP3 {
		proto = 3
	}
	c.Map(7)
	for _, line := range [][2]string{{"server", "shale"}, {"version", redisVersion}, {"mode", mode}, {"role", role}} {
		c.BulkString(line[0])
		c.BulkString(line[1])
	}
	c.BulkString("proto")
	c.Integer(int64(proto))
	c.BulkString("id")
	c.Integer(c.id)
	c.BulkString("modules")
	c.Array(0)
}

// now is TIME.
func (c *client) now([][]byte) {
	now := time.Now()
	c.Array(2)
	c.BulkString(strconv.FormatInt(now.Unix(), 10))
	c.BulkString(strconv.Itoa(now.Nanosecond() / 1000))
}

// wait is WAIT: how many others have all writes that were answered. In a group that are as many as make a majority with the
// leader, whatever number was asked for, and no time has to pass for it.
func (c *client) wait(args [][]byte) {
	if n, ok := resp.ParseInt(args[0]); !ok || n < 0 {
		c.Error(string(errNoInteger))
		return
	}
	switch timeout, ok := resp.ParseInt(args[1]); {
	case !ok:
		c.Error("ERR timeout is not an integer or out of range")
	case timeout < 0:
		c.Error("ERR timeout is negative")
	case c.s.config.Others == nil:
		c.Integer(0)
	default:
		c.Integer(int64(c.s.config.Others()))
	}
}

// command is COMMAND: the table, for clients that ask for it.
func (c *client) command(args [][]byte) {
	switch {
	case len(args) == 0:
		c.Array(len(commands))
		for _, one := range commands {
			c.describe(one)
		}
	case resp.Is(args[0], "COUNT") && len(args) == 1:
		c.Integer(int64(len(commands)))
	case resp.Is(args[0], "INFO"):
		c.Array(len(args) - 1)
		for _, name := range args[1:] {
			if one := lookUp(name); one != nil {
				c.describe(one)
			} else {
				c.NullArray()
			}
		}
	case resp.Is(args[0], "LIST") && len(args) == 1:
		c.Array(len(commands))
		for _, one := range commands {
			c.BulkString(strings.ToLower(one.Name))
		}
	case resp.Is(args[0], "GETKEYS") && len(args) > 1:
		c.getKeys(args[1:])
	case resp.Is(args[0], "DOCS"):
		c.Map(0) // redis-cli then gives no hints
	default:
		c.Error("ERR unknown subcommand '" + printable(args[0]) + "'")
	}
}

// getKeys is COMMAND GETKEYS.
func (c *client) getKeys(args [][]byte) {
	one := lookUp(args[0])
	switch {
	case one == nil:
		c.Error("ERR Invalid command specified")
	case one.First == 0:
		c.Error("ERR The command has no key arguments")
	case !one.takes(args):
		c.Error("ERR Invalid number of arguments specified for command")
	default:
		keys := slices.Collect(one.keys(args))
		c.Array(len(keys))
		for _, key := range keys {
			c.Bulk(key)
		}
	}
}

// describe replies with a line of the table.
func (c *client) describe(one *command) {
	c.Array(6)
	c.BulkString(strings.ToLower(one.Name))
	c.Integer(int64(one.Arity))
	flags := strings.Fields(one.Flags)
	c.Array(len(flags))
	for _, flag := range flags {
		c.Simple(flag)
	}
	c.Integer(int64(one.First))
	c.Integer(int64(one.Last))
	c.Integer(int64(one.Step))
}
