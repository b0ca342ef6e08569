package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/shaledb/shale"
	"github.com/tidwall/redcon"
)

// A command is an entry of the table of commands, in the terms of Redis.
type command struct {
	name  string // in capitals
	arity int    // number of arguments, the name included; -n: at least n
	flags string // separated by spaces
	// keys are at first, first+step and so on to last, which is -1 for the last argument.
	// first is 0 if there are none.
	first, last, step int
	do                func(c *client, args [][]byte) // without the name
}

// commands is the table, by name.
var commands = make(map[string]*command)

func init() {
	for _, t := range []command{
		{"PING", -1, "fast", 0, 0, 0, (*client).ping},
		{"ECHO", 2, "fast", 0, 0, 0, (*client).echo},
		{"SELECT", 2, "fast", 0, 0, 0, (*client).selectDB},
		{"QUIT", -1, "fast", 0, 0, 0, (*client).doQuit},
		{"HELLO", -1, "fast", 0, 0, 0, (*client).hello},
		{"CLIENT", -2, "fast", 0, 0, 0, (*client).client},
		{"COMMAND", -1, "", 0, 0, 0, (*client).command},
		{"CONFIG", -2, "", 0, 0, 0, (*client).configGet},
		{"INFO", -1, "", 0, 0, 0, (*client).info},
		{"DBSIZE", 1, "readonly", 0, 0, 0, (*client).dbSize},

		{"GET", 2, "readonly fast", 1, 1, 1, (*client).get},
		{"SET", -3, "write", 1, 1, 1, (*client).set},
		{"SETNX", 3, "write fast", 1, 1, 1, (*client).setNX},
		{"DEL", -2, "write", 1, -1, 1, (*client).del},
		{"EXISTS", -2, "readonly fast", 1, -1, 1, (*client).exists},
		{"MGET", -2, "readonly fast", 1, -1, 1, (*client).mget},
		{"TYPE", 2, "readonly fast", 1, 1, 1, (*client).typeOf},
		{"SCAN", -2, "readonly", 0, 0, 0, (*client).scan},

		{"BF.RESERVE", -4, "write", 1, 1, 1, (*client).bfReserve},
		{"BF.ADD", 3, "write", 1, 1, 1, (*client).bfAdd},
		{"BF.MADD", -3, "write", 1, 1, 1, (*client).bfMAdd},
		{"BF.INSERT", -4, "write", 1, 1, 1, (*client).bfInsert},
		{"BF.EXISTS", 3, "readonly fast", 1, 1, 1, (*client).bfExists},
		{"BF.MEXISTS", -3, "readonly", 1, 1, 1, (*client).bfMExists},
		{"BF.INFO", -2, "readonly fast", 1, 1, 1, (*client).bfInfo},
		{"BF.CARD", 2, "readonly fast", 1, 1, 1, (*client).bfCard},
		{"BF.SCANDUMP", 3, "readonly", 1, 1, 1, (*client).bfScanDump},
		{"BF.LOADCHUNK", 4, "write", 1, 1, 1, (*client).bfLoadChunk},
	} {
		commands[t.name] = &t
	}
}

// lookUp finds a command by its name in any case. It allocates nothing.
func lookUp(name []byte) *command {
	var upper [16]byte
	if len(name) > len(upper) {
		return nil
	}
	for i, b := range name {
		if 'a' <= b && b <= 'z' {
			b -= 'a' - 'A'
		}
		upper[i] = b
	}
	return commands[string(upper[:len(name)])]
}

// do does one command, whose name is the first argument, and appends its reply.
func (c *client) do(args [][]byte) {
	c.s.commands.Add(1)
	if len(args) == 0 {
		return // a line without a word: Redis does not answer either
	}
	t := lookUp(args[0])
	switch {
	case t == nil:
		c.error(unknownCommand(args))
	case t.arity >= 0 && len(args) != t.arity, len(args) < -t.arity:
		c.wrongArity(t.name)
	case !t.namesFit(args):
		c.error(fmt.Sprintf("ERR a key is longer than %d bytes", maxName))
	default:
		t.do(c, args[1:])
	}
}

// namesFit reports whether the store takes the keys among args.
func (t *command) namesFit(args [][]byte) bool {
	if t.first == 0 {
		return true
	}
	last := t.last
	if last < 0 {
		last = len(args) - 1
	}
	for i := t.first; i <= last; i += t.step {
		if len(args[i]) > maxName {
			return false
		}
	}
	return true
}

func unknownCommand(args [][]byte) string {
	var text strings.Builder
	fmt.Fprintf(&text, "ERR unknown command '%.128s', with args beginning with: ", args[0])
	for _, arg := range args[1:] {
		if text.Len() > 256 {
			break
		}
		fmt.Fprintf(&text, "'%.128s' ", arg)
	}
	return text.String()
}

// Replies.

func (c *client) error(text string)    { c.out = redcon.AppendError(c.out, text) }
func (c *client) ok()                  { c.out = redcon.AppendOK(c.out) }
func (c *client) simple(text string)   { c.out = redcon.AppendString(c.out, text) }
func (c *client) integer(n int64)      { c.out = redcon.AppendInt(c.out, n) }
func (c *client) bulk(b []byte)        { c.out = redcon.AppendBulk(c.out, b) }
func (c *client) bulkString(b string)  { c.out = redcon.AppendBulkString(c.out, b) }
func (c *client) null()                { c.out = redcon.AppendNull(c.out) }
func (c *client) array(n int)          { c.out = redcon.AppendArray(c.out, n) }
func (c *client) syntaxError()         { c.error("ERR syntax error") }
func (c *client) wrongArity(of string) { c.error(arityText(of)) }

func (c *client) truth(b bool) {
	if b {
		c.integer(1)
	} else {
		c.integer(0)
	}
}

func arityText(of string) string {
	return fmt.Sprintf("ERR wrong number of arguments for '%s' command", strings.ToLower(of))
}

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
	c.error(text)
}

// parseInt reads an integer as Redis does: decimal, without signs or zeros that it would not
// write.
func parseInt(arg []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(arg), 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == string(arg)
}

// parseFloat reads a number.
func parseFloat(arg []byte) (float64, bool) {
	x, err := strconv.ParseFloat(string(arg), 64)
	return x, err == nil && !math.IsNaN(x)
}

// is reports whether an argument is a word, in any case.
func is(arg []byte, word string) bool { return strings.EqualFold(string(arg), word) }

// sortedCommands returns the table in the order of names.
func sortedCommands() []*command {
	var all []*command
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		all = append(all, commands[name])
	}
	return all
}
