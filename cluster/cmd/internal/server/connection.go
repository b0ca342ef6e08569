package server

import (
	"fmt"
	"runtime"
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

// nameFits reports whether a connection can have a name. It returns false after it has replied that it can't.
func (c *client) nameFits(name []byte) bool {
	for _, b := range name {
		if b < '!' || b > '~' {
			c.Error("ERR Client names cannot contain spaces, newlines or special characters.")
			return false
		}
	}
	return true
}

// client is CLIENT, as far as clients use it when they connect.
func (c *client) client(args [][]byte) {
	switch {
	case resp.Is(args[0], "ID") && len(args) == 1:
		c.Integer(c.id)
	case resp.Is(args[0], "GETNAME") && len(args) == 1:
		c.BulkString(c.name)
	case resp.Is(args[0], "SETNAME") && len(args) == 2:
		if c.nameFits(args[1]) {
			c.name = string(args[1])
			c.OK()
		}
	case resp.Is(args[0], "SETINFO") && len(args) == 3:
		c.OK() // nothing shows it
	default:
		c.Error("ERR unknown subcommand or wrong number of arguments for '" + printable(args[0]) + "'")
	}
}

// unknownCommand returns the error for a command that is in no table.
func unknownCommand(args [][]byte) string {
	var text strings.Builder
	fmt.Fprintf(&text, "ERR unknown command '%s', with args beginning with: ", printable(args[0]))
	for _, arg := range args[1:] {
		if text.Len() > 256 {
			break
		}
		fmt.Fprintf(&text, "'%s' ", printable(arg))
	}
	return text.String()
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
	case resp.Is(args[0], "DOCS"):
		c.Map(0) // redis-cli then gives no hints
	default:
		c.Error("ERR unknown subcommand '" + printable(args[0]) + "'")
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

// configGet is CONFIG GET of the settings that redis-benchmark shows: the log is synced before each reply.
//
// redis-benchmark asks for save and appendonly before it begins, and warns if there is no answer.
func (c *client) configGet(args [][]byte) {
	if !resp.Is(args[0], "GET") || len(args) < 2 {
		c.Error("ERR there is CONFIG GET only: the flags of the server are its settings")
		return
	}
	var found [][2]string
	for _, setting := range [][2]string{
		{"appendfsync", "always"}, {"appendonly", "yes"}, {"maxclients", strconv.Itoa(c.s.config.MaxClients)}, {"save", ""},
	} {
		for _, pattern := range args[1:] {
			if resp.Matches([]byte(strings.ToLower(string(pattern))), []byte(setting[0])) {
				found = append(found, setting)
				break
			}
		}
	}
	c.Map(len(found))
	for _, setting := range found {
		c.BulkString(setting[0])
		c.BulkString(setting[1])
	}
}

// A Section is a part of the text that INFO returns: lines of name and value.
type Section struct {
	Name  string
	Lines [][2]string
}

// NewSection makes a section of names, each with its value behind it.
func NewSection(name string, lines ...any) Section {
	s := Section{Name: name}
	for ; len(lines) > 1; lines = lines[2:] {
		s.Lines = append(s.Lines, [2]string{fmt.Sprint(lines[0]), fmt.Sprint(lines[1])})
	}
	return s
}

// info is INFO. Names of sections that are not there are passed over, as in Redis.
func (c *client) info(args [][]byte) {
	counts := c.s.Counts()
	mode, _ := c.s.modeAndRole()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	var text strings.Builder
	for _, section := range append([]Section{
		NewSection("Server", "server_name", "shaled", "redis_version", redisVersion, "redis_mode", mode,
			"go_version", runtime.Version(), "uptime_in_seconds", int(time.Since(c.s.started).Seconds())),
		NewSection("Clients", "connected_clients", counts.Clients, "maxclients", c.s.config.MaxClients),
		NewSection("Memory", "used_memory", memory.HeapInuse),
		NewSection("Stats", "total_connections_received", counts.Accepted, "total_commands_processed", counts.All,
			"total_error_replies", counts.Errors),
	}, c.s.config.Info()...) {
		if !wanted(args, section.Name) {
			continue
		}
		if text.Len() > 0 {
			text.WriteString("\r\n")
		}
		fmt.Fprintf(&text, "# %s\r\n", section.Name)
		for _, line := range section.Lines {
			fmt.Fprintf(&text, "%s:%s\r\n", line[0], line[1])
		}
	}
	c.BulkString(text.String())
}

// wanted reports whether the arguments of INFO name a section.
func wanted(args [][]byte, section string) bool {
	for _, arg := range args {
		if resp.Is(arg, section) || resp.Is(arg, "all") || resp.Is(arg, "everything") || resp.Is(arg, "default") {
			return true
		}
	}
	return len(args) == 0
}
