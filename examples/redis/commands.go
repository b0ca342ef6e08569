package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/resp"
)

type command = resp.Command[func(c *client, args [][]byte)]

// commands is the table.
var commands *resp.Table[func(c *client, args [][]byte)]

func init() {
	commands = resp.NewTable([]command{
		{Name: "PING", Arity: -1, Flags: "fast", Do: (*client).Ping},
		{Name: "ECHO", Arity: 2, Flags: "fast", Do: (*client).Echo},
		{Name: "SELECT", Arity: 2, Flags: "fast", Do: (*client).Select},
		{Name: "QUIT", Arity: -1, Flags: "fast", Do: (*client).DoQuit},
		{Name: "HELLO", Arity: -1, Flags: "fast", Do: (*client).hello},
		{Name: "CLIENT", Arity: -2, Flags: "fast", Do: (*client).Client},
		{Name: "COMMAND", Arity: -1, Do: (*client).command},
		{Name: "CONFIG", Arity: -2, Do: (*client).configGet},
		{Name: "INFO", Arity: -1, Do: (*client).info},
		{Name: "DBSIZE", Arity: 1, Flags: "readonly", Do: (*client).dbSize},

		{Name: "GET", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: (*client).get},
		{Name: "SET", Arity: -3, Flags: "write", First: 1, Last: 1, Step: 1, Do: (*client).set},
		{Name: "SETNX", Arity: 3, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: (*client).setNX},
		{Name: "DEL", Arity: -2, Flags: "write", First: 1, Last: -1, Step: 1, Do: (*client).del},
		{Name: "EXISTS", Arity: -2, Flags: "readonly fast", First: 1, Last: -1, Step: 1, Do: (*client).exists},
		{Name: "MGET", Arity: -2, Flags: "readonly fast", First: 1, Last: -1, Step: 1, Do: (*client).mget},
		{Name: "TTL", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: ttl(time.Second)},
		{Name: "PTTL", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: ttl(time.Millisecond)},
		{Name: "TYPE", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: (*client).typeOf},
		{Name: "SCAN", Arity: -2, Flags: "readonly", Do: (*client).scan},

		{Name: "BF.RESERVE", Arity: -4, Flags: "write", First: 1, Last: 1, Step: 1, Do: (*client).bfReserve},
		{Name: "BF.ADD", Arity: 3, Flags: "write", First: 1, Last: 1, Step: 1, Do: (*client).bfAdd},
		{Name: "BF.MADD", Arity: -3, Flags: "write", First: 1, Last: 1, Step: 1, Do: (*client).bfMAdd},
		{Name: "BF.INSERT", Arity: -4, Flags: "write", First: 1, Last: 1, Step: 1, Do: (*client).bfInsert},
		{Name: "BF.EXISTS", Arity: 3, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: (*client).bfExists},
		{Name: "BF.MEXISTS", Arity: -3, Flags: "readonly", First: 1, Last: 1, Step: 1, Do: (*client).bfMExists},
		{Name: "BF.INFO", Arity: -2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: (*client).bfInfo},
		{Name: "BF.CARD", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: (*client).bfCard},
		{Name: "BF.SCANDUMP", Arity: 3, Flags: "readonly", First: 1, Last: 1, Step: 1, Do: (*client).bfScanDump},
		{Name: "BF.LOADCHUNK", Arity: 4, Flags: "write", First: 1, Last: 1, Step: 1, Do: (*client).bfLoadChunk},
	})
}

// do does one command, whose name is the first argument, and appends its reply.
func (c *client) do(args [][]byte) {
	c.s.commands.Add(1)
	if len(args) == 0 {
		return // a line without a word: Redis does not answer either
	}
	t := commands.LookUp(args[0])
	switch {
	case t == nil:
		c.Error(c.UnknownCommand(args))
	case !t.Takes(args):
		c.WrongArity(t.Name)
	case !namesFit(t, args):
		c.Error(fmt.Sprintf("ERR a key is longer than %d bytes", maxName))
	default:
		t.Do(c, args[1:])
	}
}

// namesFit reports whether the store takes the keys among args.
func namesFit(t *command, args [][]byte) bool {
	for name := range t.Keys(args) {
		if len(name) > maxName {
			return false
		}
	}
	return true
}

// clipped returns at most the first 128 characters of an argument, for an error's text.
func clipped(arg []byte) string { return fmt.Sprintf("%.128s", arg) }

// A replyError is an error in the words of Redis and RedisBloom. Its first word is a code for
// programs; some errors of RedisBloom have none.
type replyError string

func (e replyError) Error() string { return string(e) }

// fail replies with an error. One that is no replyError comes from the store.
func (c *client) fail(err error) {
	text := err.Error()
	var inWords replyError
	switch {
	case errors.As(err, &inWords):
		text = string(inWords)
	case errors.Is(err, shale.ErrReadOnly):
		text = "READONLY the store takes no writes: " + text
	default:
		text = "ERR the store: " + text
	}
	c.Error(text)
}

// parseFloat reads a number.
func parseFloat(arg []byte) (float64, bool) {
	x, err := strconv.ParseFloat(string(arg), 64)
	return x, err == nil && !math.IsNaN(x)
}
