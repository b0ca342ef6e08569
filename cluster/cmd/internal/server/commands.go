package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// An action is what does a command: one of the first three is set.
//
// They are apart because they need different things: none, a state to read from, or a transaction. kind says how commands
// that write go when they need less than a transaction; nil: they need it.
type action struct {
	do     func(c *client, args [][]byte) // without the name
	read   func(c *client, r shale.Reader, args [][]byte) error
	update func(c *client, tx Txn, args [][]byte) error
	kind   func(args [][]byte) kind
	keeps  bool // update gets a keeper
}

// A command is a line of the table, in the terms of Redis.
type command struct {
	Name  string // in capitals
	Arity int    // number of words, the name included; -n: at least n
	Flags string // separated by spaces
	// Keys are at First, First+Step and so on to Last, which is -1 for the last word. First is 0 if there are none. With
	// a Step of 2, each key has a value behind it.
	First, Last, Step int
	Do                action

	index int // among all commands in the order of names
}

// The table is filled by init and constant afterwards. COMMAND shows it to clients, so flags and key positions are those of
// Redis.
var (
	commands []*command // in the order of names
	byName   = make(map[string]*command)
)

// These four make the actions of the table. write is for a command that may need less than a transaction.

func do(fn func(*client, [][]byte)) action                       { return action{do: fn} }
func read(fn func(*client, shale.Reader, [][]byte) error) action { return action{read: fn} }
func update(fn func(*client, Txn, [][]byte) error) action        { return action{update: fn} }

func write(fn func(*client, Txn, [][]byte) error, how kind) action {
	return action{update: fn, kind: func([][]byte) kind { return how }}
}

func init() {
	for _, one := range slices.Concat(connectionCommands(), keyCommands(), filterCommands()) {
		byName[one.Name] = &one
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		byName[name].index = len(commands)
		commands = append(commands, byName[name])
	}
}

// connectionCommands returns the lines of the commands about the connection, the server and transactions.
func connectionCommands() []command {
	return []command{
		{Name: "PING", Arity: -1, Flags: "fast", Do: do((*client).ping)},
		{Name: "ECHO", Arity: 2, Flags: "fast", Do: do((*client).echo)},
		{Name: "SELECT", Arity: 2, Flags: "fast", Do: do((*client).selectDB)},
		{Name: "QUIT", Arity: -1, Flags: "fast no_auth", Do: do((*client).doQuit)},
		{Name: "AUTH", Arity: -2, Flags: "fast no_auth", Do: do((*client).auth)},
		{Name: "HELLO", Arity: -1, Flags: "fast no_auth", Do: do((*client).hello)},
		{Name: "CLIENT", Arity: -2, Do: do((*client).client)},
		{Name: "COMMAND", Arity: -1, Do: do((*client).command)},
		{Name: "CONFIG", Arity: -2, Do: do((*client).configGet)},
		{Name: "INFO", Arity: -1, Do: do((*client).info)},
		{Name: "TIME", Arity: 1, Flags: "fast", Do: do((*client).now)},
		{Name: "WAIT", Arity: 3, Do: do((*client).wait)},
		{Name: "CLUSTER", Arity: -2, Do: do((*client).cluster)},
		{Name: "ROLE", Arity: 1, Flags: "fast", Do: do((*client).role)},
		{Name: "READONLY", Arity: 1, Flags: "fast", Do: do((*client).readAnywhere)},
		{Name: "READWRITE", Arity: 1, Flags: "fast", Do: do((*client).readAnywhere)},

		{Name: "MULTI", Arity: 1, Flags: "fast", Do: do((*client).doMulti)},
		{Name: "EXEC", Arity: 1, Do: do((*client).exec)},
		{Name: "DISCARD", Arity: 1, Flags: "fast", Do: do((*client).discard)},
		{Name: "WATCH", Arity: -2, Flags: "fast no_multi", First: 1, Last: -1, Step: 1, Do: do((*client).watch)},
		{Name: "UNWATCH", Arity: 1, Flags: "fast", Do: do((*client).unwatch)},
	}
}

// keyCommands returns the lines of the commands on strings and keys.
func keyCommands() []command {
	return []command{
		{Name: "GET", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: read(onString((*client).get))},
		{Name: "MGET", Arity: -2, Flags: "readonly fast", First: 1, Last: -1, Step: 1, Do: read((*client).mget)},
		{Name: "EXISTS", Arity: -2, Flags: "readonly fast", First: 1, Last: -1, Step: 1, Do: read((*client).exists)},
		{Name: "STRLEN", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: read(onString((*client).strlen))},
		{Name: "TYPE", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: read((*client).typeOf)},
		{Name: "TTL", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: read(ttl(time.Second))},
		{Name: "PTTL", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: read(ttl(time.Millisecond))},
		{Name: "DIGEST", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: read(onString((*client).doDigest))},
		{Name: "GETRANGE", Arity: 4, Flags: "readonly", First: 1, Last: 1, Step: 1, Do: read(onString((*client).getRange))},
		{Name: "SUBSTR", Arity: 4, Flags: "readonly", First: 1, Last: 1, Step: 1, Do: read(onString((*client).getRange))},
		{Name: "GETBIT", Arity: 3, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: read((*client).getBit)},
		{Name: "BITCOUNT", Arity: -2, Flags: "readonly", First: 1, Last: 1, Step: 1, Do: read(onString((*client).bitCount))},
		{Name: "BITPOS", Arity: -3, Flags: "readonly", First: 1, Last: 1, Step: 1, Do: read(onString((*client).bitPos))},
		{Name: "TOUCH", Arity: -2, Flags: "readonly fast", First: 1, Last: -1, Step: 1, Do: read((*client).exists)},
		{Name: "EXPIRETIME", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: read(expireTime(time.Second))},
		{Name: "PEXPIRETIME", Arity: 2, Flags: "readonly fast", First: 1, Last: 1, Step: 1, Do: read(expireTime(time.Millisecond))},
		{Name: "SCAN", Arity: -2, Flags: "readonly no_multi", Do: read((*client).scan)},
		{Name: "DBSIZE", Arity: 1, Flags: "readonly", Do: read((*client).dbSize)},

		{Name: "SET", Arity: -3, Flags: "write", First: 1, Last: 1, Step: 1, Do: action{update: (*client).set, kind: setKind}},
		{Name: "SETNX", Arity: 3, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: write((*client).setNX, inserts)},
		{Name: "SETEX", Arity: 4, Flags: "write", First: 1, Last: 1, Step: 1, Do: setEX("SETEX", time.Second)},
		{Name: "PSETEX", Arity: 4, Flags: "write", First: 1, Last: 1, Step: 1, Do: setEX("PSETEX", time.Millisecond)},
		{Name: "MSET", Arity: -3, Flags: "write", First: 1, Last: -1, Step: 2, Do: write((*client).mset, puts)},
		{Name: "DEL", Arity: -2, Flags: "write", First: 1, Last: -1, Step: 1, Do: write((*client).del, deletes)},
		{Name: "UNLINK", Arity: -2, Flags: "write fast", First: 1, Last: -1, Step: 1, Do: write((*client).del, deletes)},

		{Name: "GETSET", Arity: 3, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update((*client).getSet)},
		{Name: "GETDEL", Arity: 2, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update((*client).getDel)},
		{Name: "GETEX", Arity: -2, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update((*client).getEx)},
		{Name: "MSETNX", Arity: -3, Flags: "write", First: 1, Last: -1, Step: 2, Do: update((*client).msetNX)},
		{Name: "APPEND", Arity: 3, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update((*client).appendTo)},
		{Name: "SETBIT", Arity: 4, Flags: "write", First: 1, Last: 1, Step: 1, Do: update((*client).setBit)},
		{Name: "SETRANGE", Arity: 4, Flags: "write", First: 1, Last: 1, Step: 1, Do: update((*client).setRange)},
		{Name: "INCR", Arity: 2, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update(incrBy(1, true))},
		{Name: "DECR", Arity: 2, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update(incrBy(-1, true))},
		{Name: "INCRBY", Arity: 3, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update(incrBy(1, false))},
		{Name: "DECRBY", Arity: 3, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update(incrBy(-1, false))},
		{Name: "DELEX", Arity: -2, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update((*client).delEx)},
		{Name: "DELIFEQ", Arity: 3, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update((*client).delIfEqual)},
		{Name: "EXPIRE", Arity: -3, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update(expire("expire", time.Second, false))},
		{Name: "PEXPIRE", Arity: -3, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update(expire("pexpire", time.Millisecond, false))},
		{Name: "EXPIREAT", Arity: -3, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update(expire("expireat", time.Second, true))},
		{Name: "PEXPIREAT", Arity: -3, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update(expire("pexpireat", time.Millisecond, true))},
		{Name: "PERSIST", Arity: 2, Flags: "write fast", First: 1, Last: 1, Step: 1, Do: update((*client).persist)},
		{Name: "FLUSHDB", Arity: -1, Flags: "write", Do: write((*client).flush, puts)},
		{Name: "FLUSHALL", Arity: -1, Flags: "write", Do: write((*client).flush, puts)},
	}
}

// takes reports whether the command has the right number of arguments, the name included.
func (c *command) takes(args [][]byte) bool {
	n := len(args)
	return (c.Arity < 0 || n == c.Arity) && n >= -c.Arity && (c.Step != 2 || n%2 == 1)
}

// keys returns the keys among the arguments, of which the first is the name.
func (c *command) keys(args [][]byte) func(yield func(key []byte) bool) {
	return func(yield func(key []byte) bool) {
		if c.First == 0 {
			return
		}
		last := c.Last
		if last < 0 {
			last = len(args) - 1
		}
		for i := c.First; i <= last; i += c.Step {
			if !yield(args[i]) {
				return
			}
		}
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
	return byName[string(upper[:len(name)])]
}

// A call is a command with its arguments, which were checked as far as the table says.
type call struct {
	t    *command
	args [][]byte // without the name
}

// check finds the command of args. If it returns a text instead, that is the error to reply. Both are empty for
// a line without a word, which Redis does not answer either.
//
// A client that has not said its password learns nothing of the table: the error is the same for
// all commands.
func (c *client) check(args [][]byte) (t *command, refused string) {
	if len(args) == 0 {
		return nil, ""
	}
	t = lookUp(args[0])
	switch {
	case !c.known && (t == nil || !strings.Contains(t.Flags, "no_auth")):
		return nil, "NOAUTH Authentication required."
	case t == nil:
		return nil, unknownCommand(args)
	case !t.takes(args):
		return nil, resp.ArityText(t.Name)
	case c.reads && t.Do.update != nil:
		return nil, fmt.Sprintf("NOPERM this password is for reading: user %s has no permissions to run the '%s' command", userName, strings.ToLower(t.Name))
	}
	return t, keysFit(t, args)
}

// keysFit returns an error text if the store does not take a key among args.
func keysFit(t *command, args [][]byte) string {
	for key := range t.keys(args) {
		if len(key) > maxName {
			return fmt.Sprintf("ERR a key is longer than %d bytes", maxName)
		}
	}
	return ""
}

// printable returns at most the first 128 bytes of an argument, in a form that fits into an error's line.
func printable(arg []byte) string {
	arg = arg[:min(len(arg), 128)]
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, string(arg))
}

// fail replies with an error: a refusal as it is, one of the store in the words of Redis.
//
// A reply in RESP is one line, so line ends are replaced.
func (c *client) fail(err error) {
	var refused refusal
	if errors.As(err, &refused) {
		c.Error(string(refused))
		return
	}
	text := c.s.config.Explain(err)
	if errors.Is(err, shale.ErrValueTooLarge) {
		text += ": send fewer keys or items with one command"
	}
	c.Error(strings.NewReplacer("\r", " ", "\n", "; ").Replace(text))
}
