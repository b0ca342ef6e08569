package main

import (
	"runtime"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/resp"
)

// hello is HELLO. The protocol is RESP2; clients that ask for RESP3 go on without it.
func (c *client) hello(args [][]byte) {
	if len(args) > 0 {
		switch n, ok := resp.ParseInt(args[0]); {
		case !ok:
			c.Error("ERR Protocol version is not an integer or out of range")
			return
		case n != 2:
			c.Error("NOPROTO unsupported protocol version")
			return
		}
	}
	if len(args) > 1 {
		c.SyntaxError() // AUTH and SETNAME
		return
	}
	c.Hello()
}

// command is COMMAND.
func (c *client) command(args [][]byte) { commands.Command(&c.Session, args) }

// configGet is CONFIG GET of the settings that redis-benchmark shows.
func (c *client) configGet(args [][]byte) {
	c.ConfigGet(args, [][2]string{{"appendfsync", c.s.config.sync}, {"appendonly", "yes"}, {"dir", c.s.config.dir}, {"save", ""}})
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
	c.Integer(n)
}

// info is INFO.
func (c *client) info(args [][]byte) {
	m := c.s.db.Metrics()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	c.Info(args, []resp.Section{
		resp.NewSection("Server", "server_name", "shale", "redis_version", resp.RedisVersion, "redis_mode", "standalone",
			"go_version", runtime.Version(), "uptime_in_seconds", int(time.Since(c.s.started).Seconds())),
		resp.NewSection("Clients", "connected_clients", c.s.clients.Load(), "maxclients", c.s.config.maxClients),
		resp.NewSection("Memory", "used_memory", memory.HeapInuse, "bloom_filters_memory", c.s.filters.bytes(),
			"store_cache_memory", m.CacheMemory, "store_memtable_memory", m.MemtableMemory, "store_filter_memory", m.FilterMemory),
		resp.NewSection("Persistence", "loading", 0, "aof_enabled", 1, "appendfsync", c.s.config.sync,
			"wal_syncs", m.WALSyncs, "wal_bytes", m.WALBytes, "flushes", m.Flushes, "compactions", m.Compactions),
		resp.NewSection("Stats", "total_commands_processed", c.s.commands.Load(), "keyspace_hits", m.GetHits, "keyspace_misses", m.GetMisses,
			"filter_negatives", m.FilterNegative, "filter_false_positives", m.FilterFalsePositive, "block_reads", m.BlockReads),
		resp.NewSection("Keyspace", "bloom_filters", c.s.filters.count()),
	})
}
