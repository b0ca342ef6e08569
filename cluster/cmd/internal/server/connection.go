package server

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/shaledb/shale/internal/resp"
)

// redisVersion is the version of Redis whose replies this server gives.
const redisVersion = "7.0.15"

func (c *client) ping(args [][]byte) {
	switch len(args) {
	case 0:
		c.simple("PONG")
	case 1:
		c.bulk(args[0])
	default:
		c.error(arityText("PING"))
	}
}

func (c *client) echo(args [][]byte) { c.bulk(args[0]) }

// selectDB is SELECT. There is one database, with number 0.
func (c *client) selectDB(args [][]byte) {
	switch n, ok := parseInt(args[0]); {
	case !ok:
		c.error("ERR value is not an integer or out of range")
	case n != 0:
		c.error("ERR DB index is out of range")
	default:
		c.ok()
	}
}

func (c *client) doQuit([][]byte) {
	c.quit = true
	c.ok()
}

// setName names the connection. It returns false after it has replied that the name is none.
func (c *client) setName(name []byte) bool {
	for _, b := range name {
		if b < '!' || b > '~' {
			c.error("ERR Client names cannot contain spaces, newlines or special characters.")
			return false
		}
	}
	c.name = string(name)
	return true
}

// client is CLIENT, as far as clients use it when they connect.
func (c *client) client(args [][]byte) {
	switch {
	case is(args[0], "ID") && len(args) == 1:
		c.integer(c.id)
	case is(args[0], "GETNAME") && len(args) == 1:
		c.bulkString(c.name)
	case is(args[0], "SETNAME") && len(args) == 2:
		if c.setName(args[1]) {
			c.ok()
		}
	case is(args[0], "SETINFO") && len(args) == 3:
		c.ok() // nothing shows it
	default:
		c.error(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%s'", printable(args[0])))
	}
}

// command is COMMAND: the table of commands, for clients that ask for it.
func (c *client) command(args [][]byte) {
	switch {
	case len(args) == 0:
		c.array(len(commands))
		for _, t := range sortedCommands() {
			c.describe(t)
		}
	case is(args[0], "COUNT") && len(args) == 1:
		c.integer(int64(len(commands)))
	case is(args[0], "INFO"):
		c.array(len(args) - 1)
		for _, name := range args[1:] {
			if t := lookUp(name); t != nil {
				c.describe(t)
			} else if c.proto3 {
				c.null()
			} else {
				c.out = append(c.out, "*-1\r\n"...)
			}
		}
	case is(args[0], "DOCS"):
		c.mapOf(0) // redis-cli then gives no hints
	default:
		c.error(fmt.Sprintf("ERR unknown subcommand '%s'", printable(args[0])))
	}
}

func (c *client) describe(t *command) {
	c.array(6)
	c.bulkString(strings.ToLower(t.name))
	c.integer(int64(t.arity))
	flags := strings.Fields(t.flags)
	c.array(len(flags))
	for _, flag := range flags {
		c.simple(flag)
	}
	c.integer(int64(t.first))
	c.integer(int64(t.last))
	c.integer(int64(t.step))
}

// configGet is CONFIG GET of the settings that redis-benchmark shows: the log is synced before each reply.
func (c *client) configGet(args [][]byte) {
	if !is(args[0], "GET") || len(args) < 2 {
		c.error("ERR there is CONFIG GET only: the flags of the server are its settings")
		return
	}
	settings := [][2]string{
		{"appendfsync", "always"}, {"appendonly", "yes"}, {"maxclients", strconv.Itoa(c.s.config.MaxClients)}, {"save", ""},
	}
	var found [][2]string
	for _, s := range settings {
		for _, pattern := range args[1:] {
			if resp.Matches([]byte(strings.ToLower(string(pattern))), []byte(s[0])) {
				found = append(found, s)
				break
			}
		}
	}
	c.mapOf(len(found))
	for _, s := range found {
		c.bulkString(s[0])
		c.bulkString(s[1])
	}
}

// info is INFO. Sections that are not there are left out, as in Redis.
func (c *client) info(args [][]byte) {
	counts := c.s.Counts()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	sections := []Section{
		{"Server", [][2]string{
			{"server_name", "shaled"}, {"redis_version", redisVersion}, {"redis_mode", "standalone"}, {"go_version", runtime.Version()},
			{"uptime_in_seconds", strconv.Itoa(int(time.Since(c.s.started).Seconds()))},
		}},
		{"Clients", [][2]string{
			{"connected_clients", strconv.FormatInt(counts.Clients, 10)}, {"maxclients", strconv.Itoa(c.s.config.MaxClients)},
		}},
		{"Memory", [][2]string{{"used_memory", strconv.FormatUint(memory.HeapInuse, 10)}}},
		{"Stats", [][2]string{
			{"total_connections_received", strconv.FormatInt(counts.Accepted, 10)}, {"total_commands_processed", strconv.FormatInt(counts.All, 10)},
			{"total_error_replies", strconv.FormatInt(counts.Errors, 10)},
		}},
	}
	var text strings.Builder
	for _, s := range append(sections, c.s.config.Info()...) {
		if !wanted(args, s.Name) {
			continue
		}
		if text.Len() > 0 {
			text.WriteString("\r\n")
		}
		fmt.Fprintf(&text, "# %s\r\n", s.Name)
		for _, line := range s.Lines {
			fmt.Fprintf(&text, "%s:%s\r\n", line[0], line[1])
		}
	}
	c.bulkString(text.String())
}

func wanted(args [][]byte, section string) bool {
	for _, arg := range args {
		if is(arg, section) || is(arg, "all") || is(arg, "everything") || is(arg, "default") {
			return true
		}
	}
	return len(args) == 0
}
