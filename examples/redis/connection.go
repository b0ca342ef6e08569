package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/resp"
)

func (c *client) ping(args [][]byte) {
	switch len(args) {
	case 0:
		c.simple("PONG")
	case 1:
		c.bulk(args[0])
	default:
		c.wrongArity("ping")
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

// hello is HELLO. The protocol is RESP2; clients that ask for RESP3 go on without it.
func (c *client) hello(args [][]byte) {
	if len(args) > 0 {
		switch n, ok := parseInt(args[0]); {
		case !ok:
			c.error("ERR Protocol version is not an integer or out of range")
			return
		case n != 2:
			c.error("NOPROTO unsupported protocol version")
			return
		}
	}
	if len(args) > 1 {
		c.syntaxError() // AUTH and SETNAME
		return
	}
	c.array(14)
	c.bulkString("server")
	c.bulkString("shale")
	c.bulkString("version")
	c.bulkString(redisVersion)
	c.bulkString("proto")
	c.integer(2)
	c.bulkString("id")
	c.integer(c.id)
	c.bulkString("mode")
	c.bulkString("standalone")
	c.bulkString("role")
	c.bulkString("master")
	c.bulkString("modules")
	c.array(0)
}

// redisVersion is the version of Redis whose replies this server gives.
const redisVersion = "7.0.15"

// client is CLIENT, as far as clients use it when they connect.
func (c *client) client(args [][]byte) {
	switch {
	case is(args[0], "ID") && len(args) == 1:
		c.integer(c.id)
	case is(args[0], "GETNAME") && len(args) == 1:
		c.bulkString(c.name)
	case is(args[0], "SETNAME") && len(args) == 2:
		c.name = string(args[1])
		c.ok()
	case is(args[0], "SETINFO") && len(args) == 3:
		c.ok() // nothing shows it
	default:
		c.error(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'", args[0]))
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
			} else {
				c.out = append(c.out, "*-1\r\n"...)
			}
		}
	case is(args[0], "DOCS"):
		c.array(0) // redis-cli then gives no hints
	default:
		c.error(fmt.Sprintf("ERR unknown subcommand '%.128s'", args[0]))
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

// configGet is CONFIG GET of the settings that redis-benchmark shows.
func (c *client) configGet(args [][]byte) {
	if !is(args[0], "GET") || len(args) < 2 {
		c.error("ERR there is CONFIG GET only: the flags of the server are its settings")
		return
	}
	settings := []struct{ name, value string }{
		{"appendfsync", c.s.config.sync}, {"appendonly", "yes"}, {"dir", c.s.config.dir}, {"save", ""},
	}
	var found []string
	for _, s := range settings {
		for _, pattern := range args[1:] {
			if resp.Matches([]byte(strings.ToLower(string(pattern))), []byte(s.name)) {
				found = append(found, s.name, s.value)
				break
			}
		}
	}
	c.array(len(found))
	for _, word := range found {
		c.bulkString(word)
	}
}

// dbSize is DBSIZE. The store does not count its keys, so this walks over all of them.
func (c *client) dbSize([][]byte) {
	n := int64(0)
	for _, err := range c.s.db.Scan(shale.Range{Lower: []byte{nameSpace}, Upper: []byte{nameSpace + 1}, KeysOnly: true}) {
		if err != nil {
			c.fail(err)
			return
		}
		n++
	}
	c.integer(n)
}

// info is INFO. Sections that are not there are left out, as in Redis.
func (c *client) info(args [][]byte) {
	m := c.s.db.Metrics()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	filterBytes := c.s.filters.bytes()
	sections := []struct{ name, text string }{
		{"Server", fmt.Sprintf("server_name:shale\r\nredis_version:%s\r\nredis_mode:standalone\r\ngo_version:%s\r\nuptime_in_seconds:%d\r\n",
			redisVersion, runtime.Version(), int(time.Since(c.s.started).Seconds()))},
		{"Clients", fmt.Sprintf("connected_clients:%d\r\nmaxclients:%d\r\n", c.s.clients.Load(), c.s.config.maxClients)},
		{"Memory", fmt.Sprintf("used_memory:%d\r\nbloom_filters_memory:%d\r\nstore_cache_memory:%d\r\nstore_memtable_memory:%d\r\nstore_filter_memory:%d\r\n",
			memory.HeapInuse, filterBytes, m.CacheMemory, m.MemtableMemory, m.FilterMemory)},
		{"Persistence", fmt.Sprintf("loading:0\r\naof_enabled:1\r\nappendfsync:%s\r\nwal_syncs:%d\r\nwal_bytes:%d\r\nflushes:%d\r\ncompactions:%d\r\n",
			c.s.config.sync, m.WALSyncs, m.WALBytes, m.Flushes, m.Compactions)},
		{"Stats", fmt.Sprintf("total_commands_processed:%d\r\nkeyspace_hits:%d\r\nkeyspace_misses:%d\r\nfilter_negatives:%d\r\nfilter_false_positives:%d\r\nblock_reads:%d\r\n",
			c.s.commands.Load(), m.GetHits, m.GetMisses, m.FilterNegative, m.FilterFalsePositive, m.BlockReads)},
		{"Keyspace", fmt.Sprintf("bloom_filters:%d\r\n", c.s.filters.count())},
	}
	var text strings.Builder
	for _, s := range sections {
		if !wanted(args, s.name) {
			continue
		}
		if text.Len() > 0 {
			text.WriteString("\r\n")
		}
		fmt.Fprintf(&text, "# %s\r\n%s", s.name, s.text)
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
